{{/* The pod, alike in Deployment and StatefulSet. */}}
{{- define "spantap.podTemplate" -}}
{{- include "spantap.validate" . -}}
{{- $secretFiles := (include "spantap.secretFiles" . | fromJson).files -}}
metadata:
  {{- $settings := print (include (print $.Template.BasePath "/configmap.yaml") .) (include (print $.Template.BasePath "/secret.yaml") .) }}
  annotations:
    {{- include "spantap.merged" (list .Values.podAnnotations (dict "checksum/config" (sha256sum $settings))) | nindent 4 }}
  labels:
    {{- include "spantap.merged" (list .Values.commonLabels .Values.podLabels (include "spantap.selectorLabels" . | fromYaml)) | nindent 4 }}
spec:
  serviceAccountName: {{ include "spantap.serviceAccountName" . | quote }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
  # A Service named spantap would make SPANTAP_PORT=tcp://... of itself.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int64 .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . | quote }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: spantap
      image: {{ include "spantap.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
      args:
        - serve
      ports:
        - name: traffic
          containerPort: 4000
          protocol: TCP
        - name: admin
          containerPort: 4001
          protocol: TCP
        {{- if .Values.page.enabled }}
        - name: page
          containerPort: 4002
          protocol: TCP
        {{- end }}
      envFrom:
        - configMapRef:
            name: {{ include "spantap.fullname" . | quote }}
        {{- with .Values.extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "spantap.env" . }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with .Values.livenessProbe }}
      livenessProbe:
        {{- include "spantap.probe" . | nindent 8 }}
      {{- end }}
      {{- with .Values.readinessProbe }}
      readinessProbe:
        {{- include "spantap.probe" . | nindent 8 }}
      {{- end }}
      {{- with .Values.startupProbe }}
      startupProbe:
        {{- include "spantap.probe" . | nindent 8 }}
      {{- end }}
      {{- with .Values.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: store
          mountPath: /var/lib/spantap
        - name: tmp
          mountPath: /tmp
        {{- range $secretFiles }}
        - name: {{ .name | quote }}
          mountPath: /etc/spantap/{{ .name }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- if not .Values.store.persistence.enabled }}
    - name: store
      emptyDir:
        sizeLimit: {{ .Values.store.size | quote }}
    {{- else if .Values.store.persistence.existingClaim }}
    - name: store
      persistentVolumeClaim:
        claimName: {{ .Values.store.persistence.existingClaim | quote }}
    {{- end }}
    - name: tmp
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.tmp.size | quote }}
    {{- range $secretFiles }}
    - name: {{ .name | quote }}
      secret:
        secretName: {{ .secret | quote }}
        defaultMode: 0440
        items:
          {{- toYaml .items | nindent 10 }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- if .labelSelector }}
    - {{ toYaml . | nindent 6 | trim }}
    {{- else }}
    - {{ toYaml . | nindent 6 | trim }}
      labelSelector:
        matchLabels:
          {{- include "spantap.selectorLabels" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The variables that no ConfigMap can have: from Secrets, and from the pod itself. */}}
{{- define "spantap.ownEnv" -}}
{{- with .Values.upstream }}
{{- if .existingSecret }}
{{ include "spantap.secretVariable" (dict "name" "UPSTREAM_KEY" "secret" .existingSecret "key" .secretKey) }}
{{- end }}
{{- end }}
{{- range $number, $upstream := .Values.upstreams }}
{{- if .existingSecret }}
{{ include "spantap.secretVariable" (dict "name" (printf "UPSTREAM_KEY_%d" $number) "secret" .existingSecret "key" (.secretKey | default "api-key")) }}
{{- end }}
{{- end }}
{{- with .Values.page }}
{{- if .enabled }}
{{ include "spantap.secretVariable" (dict "name" "SPANTAP_PAGE_TOKEN" "secret" .existingSecret "key" .secretKey) }}
{{- end }}
{{- end }}
{{- with .Values.otel }}
{{- if .headersSecret }}
{{ include "spantap.secretVariable" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "secret" .headersSecret "key" .headersKey) }}
{{- end }}
{{- $attributes := list }}
{{- if .kubernetesAttributes }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- $attributes = list "k8s.pod.name=$(POD_NAME)" "k8s.namespace.name=$(POD_NAMESPACE)" "k8s.node.name=$(NODE_NAME)" }}
{{- end }}
{{- range $name, $value := .resourceAttributes }}
{{- $attributes = append $attributes (printf "%s=%s" $name ($value | urlquery | replace "+" "%20")) }}
{{- end }}
{{- with $attributes }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* All variables: one of extraEnv takes the place of ours with its name, for none may stand twice, and
others may refer to it. */}}
{{- define "spantap.env" -}}
{{- $theirs := dict -}}
{{- range .Values.extraEnv }}{{ $_ := set $theirs .name . }}{{ end -}}
{{- $variables := list -}}
{{- $names := list -}}
{{- range include "spantap.ownEnv" . | fromYamlArray -}}
{{- $variables = append $variables (get $theirs .name | default .) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if not (has .name $names) }}{{ $variables = append $variables . }}{{ end -}}
{{- end -}}
{{- if $variables }}{{ toYaml $variables }}{{ end -}}
{{- end -}}
