{{/* What works, and may not be what is wanted: lines for NOTES.txt. */}}
{{- define "spantap.warnings" -}}
{{- $least := include "spantap.minReplicas" . | int -}}
{{- if and (include "spantap.holdsKey" .) (not (include "spantap.hasInboundKeys" .)) }}
- spantap holds a provider's key, and requests need none: whoever reaches the Service spends it. Set
  inboundKeys, or narrow networkPolicy.from.
{{- end }}
{{- if not .Values.otel.endpoint }}
- otel.endpoint is empty: spans are kept in the pods and sent nowhere
  {{- if not .Values.store.persistence.enabled }}, and go with their pod{{ end }}.
{{- else if not .Values.store.persistence.enabled }}
- The store is an emptyDir: spans that the backend has not taken when a pod goes are lost. With
  store.persistence.enabled they wait on a claim.
{{- end }}
{{- if lt $least 2 }}
- There is one pod: while a node is drained calls are refused, and there is no PodDisruptionBudget, for it
  would keep the node from being drained. Two pods or more avoid that.
{{- end }}
{{- if and .Values.autoscaling.enabled .Values.store.persistence.enabled (eq .Values.store.persistence.retentionPolicy.whenScaled "Delete") }}
- store.persistence.retentionPolicy.whenScaled is Delete: spans that wait in a pod's claim go when the
  autoscaler takes the pod away.
{{- end }}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.openExchanges.enabled) }}
- The autoscaler looks at CPU alone, which open and silent streams do not take: see
  autoscaling.openExchanges.
{{- end }}
{{- if and .Values.autoscaling.enabled .Values.autoscaling.openExchanges.enabled (not .Values.serviceMonitor.enabled) }}
- autoscaling.openExchanges.enabled is true and serviceMonitor.enabled is not: an adapter has to get
  {{ .Values.autoscaling.openExchanges.metricName }} of each pod in another way.
{{- end }}
{{- if and .Values.podDisruptionBudget.enabled (has (toString .Values.podDisruptionBudget.maxUnavailable) (list "0" "0%")) (not (include "spantap.minAvailable" .)) }}
- podDisruptionBudget.maxUnavailable is {{ .Values.podDisruptionBudget.maxUnavailable }}: no node with one of these pods can be drained.
{{- end }}
{{- if and .Values.prometheusRule.enabled (not .Values.serviceMonitor.enabled) }}
- prometheusRule.enabled is true and serviceMonitor.enabled is not: the alerts look for the job
  {{ include "spantap.adminName" . }}.
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.streaming) (not .Values.ingress.annotations) }}
- The Ingress has no annotations: many controllers then hold streams back or cut them after a minute. See
  ingress.streaming.
{{- end }}
{{- if and .Values.ingress.enabled .Values.ingress.streaming }}
{{- range $key := list "firstByteTimeoutSeconds" "idleTimeoutSeconds" }}
{{- if not (get $.Values.config $key) }}
- config.{{ $key }} is 0, without end; the ingress cuts an answer that is silent for
  {{ int64 $.Values.ingress.timeoutSeconds }} s (ingress.timeoutSeconds).
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.httpRoute.enabled .Values.tls.existingSecret (not (contains "BackendTLSPolicy" (toJson .Values.extraManifests))) }}
- The traffic port speaks TLS alone, and a gateway speaks plain HTTP to it without a BackendTLSPolicy:
  docs/kubernetes.md has one for extraManifests.
{{- end }}
{{- if or (hasPrefix "127." .Values.config.host) (eq .Values.config.host "::1") }}
- config.host is {{ .Values.config.host }}: neither the kubelet nor a Service reaches the pods, which never
  become ready.
{{- end }}
{{- if not (or .Values.image.digest .Values.image.tag) }}
- The image is {{ include "spantap.image" . }}; image.digest pins it.
  {{- if contains ".dev" .Chart.AppVersion }} No release has pushed this one: build
  your own, and name it by image.{{ end }}
{{- end }}
{{- end -}}
