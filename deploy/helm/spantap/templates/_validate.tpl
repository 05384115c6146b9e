{{/* Combinations of values that cannot work: each fails the render, and says what to change. */}}

{{/* How long the end may take beyond linger and drain: the program waits so long for the backend. */}}
{{- define "spantap.flushSeconds" -}}5{{- end -}}

{{- define "spantap.validate" -}}
{{- include "spantap.validateDrain" . -}}
{{- include "spantap.validateReplicas" . -}}
{{- include "spantap.validateStore" . -}}
{{- include "spantap.validateUpstreams" . -}}
{{- include "spantap.validateTelemetry" . -}}
{{- include "spantap.validateRoutes" . -}}
{{- end -}}

{{- define "spantap.validateDrain" -}}
{{- $linger := int64 .Values.drain.lingerSeconds -}}
{{- $deadline := int64 .Values.drain.deadlineSeconds -}}
{{- $flush := include "spantap.flushSeconds" . | int64 -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds -}}
{{- $sleep := dig "preStop" "sleep" "seconds" 0 .Values.lifecycle | int64 -}}
{{- $needed := add $sleep $linger $deadline $flush -}}
{{- if ge $needed $grace -}}
{{- $before := "" -}}
{{- if $sleep }}{{ $before = printf "lifecycle.preStop.sleep.seconds (%d) + " $sleep }}{{ end -}}
{{- fail (printf "%sdrain.lingerSeconds (%d) + drain.deadlineSeconds (%d) + %d s to send the last spans = %d s, which is not less than terminationGracePeriodSeconds (%d): set terminationGracePeriodSeconds to more than %d, or lower drain.deadlineSeconds" $before $linger $deadline $flush $needed $grace $needed) -}}
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
{{- if and $auto.targetCPUUtilizationPercentage (not (dig "requests" "cpu" "" .Values.resources)) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage is a share of resources.requests.cpu, which is not set: set it, or set the target to 0" -}}
{{- end -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- $least := include "spantap.minReplicas" . | int -}}
{{- if and $budget.enabled (gt $least 1) (not (kindIs "string" $budget.minAvailable)) (ge (int $budget.minAvailable) $least) -}}
{{- fail (printf "podDisruptionBudget.minAvailable (%d) is not less than the number of pods (%d), so that no node could be drained: lower it, or use podDisruptionBudget.maxUnavailable" (int $budget.minAvailable) $least) -}}
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
{{- $needed := add (int64 $store.maxBytes) 16777216 -}}
{{- if gt $needed $room -}}
{{- fail (printf "store.maxBytes (%d) and the reserve of 16 MiB are %d bytes, more than store.size (%s, %d bytes), and a pod whose volume is full is evicted: raise store.size or lower store.maxBytes" (int64 $store.maxBytes) $needed $store.size $room) -}}
{{- end -}}
{{- if gt (int64 .Values.config.maxValueBytes) (int64 .Values.config.maxSpanBytes) -}}
{{- fail (printf "config.maxValueBytes (%d) is more than config.maxSpanBytes (%d): one value must fit into a span" (int64 .Values.config.maxValueBytes) (int64 .Values.config.maxSpanBytes)) -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateUpstreams" -}}
{{- $names := list -}}
{{- $prefixes := list -}}
{{- if .Values.upstream.existingSecret }}{{ $names = list "default" }}{{ $prefixes = list "" }}{{ end -}}
{{- range .Values.upstreams -}}
{{- if has .name $names -}}
{{- fail (printf "two upstreams have the name %q: give each entry of upstreams its own (upstream.existingSecret takes the name \"default\")" .name) -}}
{{- end -}}
{{- $prefix := trimSuffix "/" .prefix -}}
{{- if has $prefix $prefixes -}}
{{- fail (printf "two upstreams have the prefix %q: give each entry of upstreams its own (upstream.existingSecret takes the prefix \"/\")" .prefix) -}}
{{- end -}}
{{- if and (not .existingSecret) .secretKey -}}
{{- fail (printf "upstreams: %q has a secretKey and no existingSecret: name the Secret, or leave the key out" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $prefixes = append $prefixes $prefix -}}
{{- end -}}
{{- if and .Values.inboundKeys.existingSecret .Values.inboundKeys.digests -}}
{{- fail "inboundKeys.existingSecret and inboundKeys.digests are both set, but spantap reads one file of keys: put the digests into the Secret, or leave it out" -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateTelemetry" -}}
{{- $otel := .Values.otel -}}
{{- if not $otel.endpoint -}}
{{- range $key := list "headersSecret" "caSecret" "clientCertSecret" -}}
{{- if get $otel $key -}}
{{- fail (printf "otel.%s is %q, but otel.endpoint is empty, so that no span would be sent: set otel.endpoint, or leave otel.%s out" $key (get $otel $key) $key) -}}
{{- end -}}
{{- end -}}
{{- if and $otel.metrics.enabled (not $otel.metrics.endpoint) -}}
{{- fail "otel.metrics.enabled is true, but neither otel.metrics.endpoint nor otel.endpoint says where: set one of them" -}}
{{- end -}}
{{- end -}}
{{- if and (ne $otel.protocol "grpc") $otel.endpoint (not (contains "://" $otel.endpoint)) -}}
{{- fail (printf "otel.endpoint is %q, which only otel.protocol grpc takes: begin it with http:// or https://" $otel.endpoint) -}}
{{- end -}}
{{- end -}}

{{- define "spantap.validateRoutes" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled is true, but ingress.hosts is empty: name a host, or every call to the ingress would be spantap's" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled is true, but httpRoute.parentRefs is empty: name the Gateway" -}}
{{- end -}}
{{- if and .Values.ingress.enabled .Values.ingress.streaming (le (int64 .Values.ingress.timeoutSeconds) (int64 .Values.config.idleTimeoutSeconds)) -}}
{{- fail (printf "ingress.timeoutSeconds (%d) is not more than config.idleTimeoutSeconds (%d), so that the ingress would cut a stream first, and clients would not hear why: raise the first or lower the second" (int64 .Values.ingress.timeoutSeconds) (int64 .Values.config.idleTimeoutSeconds)) -}}
{{- end -}}
{{- end -}}
