{{/* Combinations of values that cannot work: each fails the render, and says what to change. */}}

{{/* How long the end may take beyond linger and drain: 5 s to cut what is open, 5 s to send the last
spans, 4 s to close, and 1 s for what lies between. */}}
{{- define "spantap.endSeconds" -}}15{{- end -}}

{{- define "spantap.validate" -}}
{{- include "spantap.validateName" . -}}
{{- include "spantap.validateDrain" . -}}
{{- include "spantap.validateReplicas" . -}}
{{- include "spantap.validateStore" . -}}
{{- include "spantap.validateUpstreams" . -}}
{{- include "spantap.validatePage" . -}}
{{- include "spantap.validateTelemetry" . -}}
{{- include "spantap.validateRoutes" . -}}
{{- end -}}

{{- define "spantap.validateDrain" -}}
{{- $linger := int64 .Values.drain.lingerSeconds -}}
{{- $deadline := int64 .Values.drain.deadlineSeconds -}}
{{- $end := include "spantap.endSeconds" . | int64 -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds -}}
{{- $sleep := (((.Values.lifecycle).preStop).sleep).seconds | int64 -}}
{{- $needed := add $sleep $linger $deadline $end -}}
{{- if ge $needed $grace -}}
{{- $before := "" -}}
{{- if $sleep }}{{ $before = printf "lifecycle.preStop.sleep.seconds (%d) + " $sleep }}{{ end -}}
{{- fail (printf "%sdrain.lingerSeconds (%d) + drain.deadlineSeconds (%d) + %d s to cut, to send the last spans and to close = %d s, which is not less than terminationGracePeriodSeconds (%d): set terminationGracePeriodSeconds to more than %d, or lower drain.deadlineSeconds" $before $linger $deadline $end $needed $grace $needed) -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateReplicas" -}}
{{- $auto := .Values.autoscaling -}}
{{- if $auto.enabled -}}
{{- if gt (int $auto.minReplicas) (int $auto.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas (%d) is more than autoscaling.maxReplicas (%d): lower the first or raise the second" (int $auto.minReplicas) (int $auto.maxReplicas)) -}}
{{- end -}}
{{- if not (or $auto.targetCPUUtilizationPercentage $auto.openExchanges.enabled) -}}
{{- fail "autoscaling.enabled is true, but nothing is looked at: set autoscaling.targetCPUUtilizationPercentage, or autoscaling.openExchanges.enabled to true" -}}
{{- end -}}
{{- if and $auto.targetCPUUtilizationPercentage (not ((.Values.resources).requests).cpu) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage is a share of resources.requests.cpu, which is not set: set it, or set the target to 0" -}}
{{- end -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- $least := include "spantap.minReplicas" . | int -}}
{{- $stay := include "spantap.minAvailable" . -}}
{{- $staying := int $stay -}}
{{- if hasSuffix "%" $stay }}{{ $staying = divf (mul (trimSuffix "%" $stay | int) $least) 100 | ceil | int }}{{ end -}}
{{- if and $budget.enabled (gt $least 1) (ge $staying $least) -}}
{{- fail (printf "podDisruptionBudget.minAvailable (%s) is not less than the number of pods (%d), so that no node could be drained: lower it, or use podDisruptionBudget.maxUnavailable" $stay $least) -}}
{{- end -}}
{{- if and $budget.enabled (not $stay) (kindIs "invalid" $budget.maxUnavailable) -}}
{{- fail "podDisruptionBudget.enabled is true, but neither minAvailable nor maxUnavailable is set: set one of them" -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateStore" -}}
{{- $store := .Values.store -}}
{{- $claim := $store.persistence.existingClaim -}}
{{- if and $claim (not $store.persistence.enabled) -}}
{{- fail (printf "store.persistence.existingClaim is %q, but store.persistence.enabled is false: set it to true, or leave the claim out" $claim) -}}
{{- end -}}
{{- if and $claim .Values.autoscaling.enabled -}}
{{- fail (printf "store.persistence.existingClaim is %q, and one claim serves one pod, but autoscaling.enabled is true: leave the claim out, so that each pod gets its own" $claim) -}}
{{- end -}}
{{- if and $claim (gt (int .Values.replicaCount) 1) -}}
{{- fail (printf "store.persistence.existingClaim is %q, and one claim serves one pod, but replicaCount is %d: set it to 1, or leave the claim out, so that each pod gets its own" $claim (int .Values.replicaCount)) -}}
{{- end -}}
{{- $room := include "spantap.bytes" $store.size | int64 -}}
{{- /* A damaged store stays beside the new one. Past its limit an emptyDir ends its pod; a claim is just full. */ -}}
{{- $count := ternary 1 2 $store.persistence.enabled -}}
{{- $needed := add (mul $count (int64 $store.maxBytes)) 16777216 (int64 $store.maxSpoolBytes) -}}
{{- if gt $needed $room -}}
{{- fail (printf "store.maxBytes (%d)%s, the reserve of 16 MiB and store.maxSpoolBytes (%d) are %d bytes, more than store.size (%s, %d bytes), the room of a pod's volume: raise store.size, or lower one of the others" (int64 $store.maxBytes) (ternary "" ", twice for a damaged one" $store.persistence.enabled) (int64 $store.maxSpoolBytes) $needed $store.size $room) -}}
{{- end -}}
{{- if gt (int64 .Values.config.maxValueBytes) (int64 .Values.config.maxSpanBytes) -}}
{{- fail (printf "config.maxValueBytes (%d) is more than config.maxSpanBytes (%d): one value must fit into a span" (int64 .Values.config.maxValueBytes) (int64 .Values.config.maxSpanBytes)) -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateUpstreams" -}}
{{- if and .Values.upstream.existingSecret (not .Values.upstream.baseUrl) -}}
{{- fail "upstream.existingSecret holds a provider's key, but upstream.baseUrl is empty: name the provider's URL, or make an entry of upstreams for it" -}}
{{- end -}}
{{- $names := list -}}
{{- $prefixes := list -}}
{{- if .Values.upstream.existingSecret }}{{ $names = list "default" }}{{ $prefixes = list "" }}{{ end -}}
{{- range $upstream := .Values.upstreams -}}
{{- if has .name $names -}}
{{- fail (printf "two upstreams have the name %q: give each entry of upstreams its own (upstream.existingSecret takes the name \"default\")" .name) -}}
{{- end -}}
{{- $prefix := trimSuffix "/" .prefix -}}
{{- if has $prefix $prefixes -}}
{{- fail (printf "two upstreams have the prefix %q: give each entry of upstreams its own (upstream.existingSecret takes the prefix \"/\")" .prefix) -}}
{{- end -}}
{{- range $key := list "secretKey" "keyHeader" -}}
{{- if and (not $upstream.existingSecret) (get $upstream $key) -}}
{{- fail (printf "upstreams: %q has a %s and no existingSecret: name the Secret, or leave it out" $upstream.name $key) -}}
{{- end -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $prefixes = append $prefixes $prefix -}}
{{- end -}}
{{- if and .Values.inboundKeys.existingSecret .Values.inboundKeys.digests -}}
{{- fail "inboundKeys.existingSecret and inboundKeys.digests are both set, but spantap reads one file of keys: put the digests into the Secret, or leave it out" -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validatePage" -}}
{{- if and .Values.page.enabled (not .Values.page.existingSecret) -}}
{{- fail "page.enabled is true, but page.existingSecret is empty, so that whoever reaches a pod could read all calls: name the Secret that has the page's token" -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateTelemetry" -}}
{{- $otel := .Values.otel -}}
{{- $metrics := and $otel.metrics.enabled $otel.metrics.endpoint -}}
{{- if not (or $otel.endpoint $metrics) -}}
{{- range $key := list "headersSecret" "caSecret" "clientCertSecret" -}}
{{- if get $otel $key -}}
{{- fail (printf "otel.%s is %q, but otel.endpoint is empty and otel.metrics has none of its own, so that nothing would be sent: set otel.endpoint, or leave otel.%s out" $key (get $otel $key) $key) -}}
{{- end -}}
{{- end -}}
{{- if and $otel.metrics.enabled (not $otel.metrics.endpoint) -}}
{{- fail "otel.metrics.enabled is true, but neither otel.metrics.endpoint nor otel.endpoint says where: set one of them" -}}
{{- end -}}
{{- end -}}
{{- range $key, $endpoint := dict "otel.endpoint" $otel.endpoint "otel.metrics.endpoint" $otel.metrics.endpoint -}}
{{- if and (ne $otel.protocol "grpc") $endpoint (not (contains "://" $endpoint)) -}}
{{- fail (printf "%s is %q, which only otel.protocol grpc takes: begin it with http:// or https://" $key $endpoint) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateRoutes" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled is true, but ingress.hosts is empty: name a host, or every call to the ingress would be spantap's" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled is true, but httpRoute.parentRefs is empty: name the Gateway" -}}
{{- end -}}
{{- if and .Values.ingress.enabled .Values.ingress.streaming -}}
{{- $seconds := int64 .Values.ingress.timeoutSeconds -}}
{{- range $key := list "firstByteTimeoutSeconds" "idleTimeoutSeconds" -}}
{{- $silence := get $.Values.config $key | float64 -}}
{{- if le (float64 $seconds) $silence -}}
{{- fail (printf "ingress.timeoutSeconds (%d) is not more than config.%s (%g), so that the ingress would cut an answer first, and clients would not hear why: raise the first or lower the second" $seconds $key $silence) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.ingress.streaming "alb") (gt $seconds 4000) -}}
{{- fail (printf "ingress.timeoutSeconds (%d) is more than the 4000 s that an ALB waits: lower it, and config.firstByteTimeoutSeconds and config.idleTimeoutSeconds with it" $seconds) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A Service's name begins with a letter; that of a release may begin with a digit. */}}
{{- define "spantap.validateName" -}}
{{- $name := include "spantap.fullname" . -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- fail (printf "the objects' name %q does not begin with a letter, as that of a Service must: set fullnameOverride" $name) -}}
{{- end -}}
{{- end -}}
