{{/* The pod, alike in Deployment and StatefulSet. */}}
{{- define "spantap.podTemplate" -}}
{{- include "spantap.validate" . -}}
{{- $secretFiles := (include "spantap.secretFiles" . | fromJson).files -}}
metadata:
  annotations:
    checksum/config: {{ print (include (print $.Template.BasePath "/configmap.yaml") .) (include (print $.Template.BasePath "/secret.yaml") .) | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "spantap.selectorLabels" . | nindent 4 }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "spantap.serviceAccountName" . }}
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
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . }}
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
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
      ports:
        - name: traffic
          containerPort: 4000
          protocol: TCP
        - name: admin
          containerPort: 4001
          protocol: TCP
      envFrom:
        - configMapRef:
            name: {{ include "spantap.fullname" . }}
        {{- with .Values.extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "spantap.env" . }}
      env:
        {{- trim . | nindent 8 }}
      {{- end }}
      {{- with .Values.livenessProbe }}
      livenessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.readinessProbe }}
      readinessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.startupProbe }}
      startupProbe:
        {{- toYaml . | nindent 8 }}
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
        - name: {{ .name }}
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
        sizeLimit: {{ .Values.store.size }}
    {{- else if .Values.store.persistence.existingClaim }}
    - name: store
      persistentVolumeClaim:
        claimName: {{ .Values.store.persistence.existingClaim }}
    {{- end }}
    - name: tmp
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.tmp.size }}
    {{- range $secretFiles }}
    - name: {{ .name }}
      secret:
        secretName: {{ .secret }}
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
{{- define "spantap.env" -}}
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
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
