{{/* Names, labels, and what several templates say alike. */}}

{{- define "spantap.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Release and chart; the release alone where its name says the chart's. Short enough for "-admin", and
without the dots that a release may have and a Service may not. */}}
{{- define "spantap.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- $full | replace "." "-" | trunc 52 | trimAll "-" -}}
{{- end -}}

{{- define "spantap.adminName" -}}
{{- printf "%s-admin" (include "spantap.fullname" .) -}}
{{- end -}}

{{- define "spantap.pageName" -}}
{{- printf "%s-page" (include "spantap.fullname" .) -}}
{{- end -}}

{{/* The names by which the page is asked for: of its Service, and those of the values. */}}
{{- define "spantap.pageHosts" -}}
{{- $name := include "spantap.pageName" . -}}
{{- $short := printf "%s.%s" $name .Release.Namespace -}}
{{- $hosts := list $name $short (printf "%s.svc" $short) (printf "%s.svc.cluster.local" $short) -}}
{{- concat $hosts .Values.page.hosts | uniq | join "," -}}
{{- end -}}

{{- define "spantap.keysSecret" -}}
{{- .Values.inboundKeys.existingSecret | default (printf "%s-keys" (include "spantap.fullname" .)) -}}
{{- end -}}

{{/* What selects things of this release; never changes. */}}
{{- define "spantap.releaseLabels" -}}
app.kubernetes.io/name: {{ include "spantap.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* What selects the pods that relay. */}}
{{- define "spantap.selectorLabels" -}}
{{ include "spantap.releaseLabels" . }}
app.kubernetes.io/component: proxy
{{- end -}}

{{/* Tables as one, in YAML: of equal names the last counts, so that none stands twice. */}}
{{- define "spantap.merged" -}}
{{- $merged := dict -}}
{{- range . }}{{ range $name, $value := . }}{{ $_ := set $merged $name $value }}{{ end }}{{ end -}}
{{- toYaml $merged -}}
{{- end -}}

{{- define "spantap.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "spantap.releaseLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{/* The labels of an object: a list of the root and of tables of further labels. Ours win. */}}
{{- define "spantap.labelsWith" -}}
{{- $root := first . -}}
{{- include "spantap.merged" (concat (list $root.Values.commonLabels) (rest .) (list (include "spantap.ownLabels" $root | fromYaml))) -}}
{{- end -}}

{{- define "spantap.labels" -}}
{{- include "spantap.labelsWith" (list .) -}}
{{- end -}}

{{- define "spantap.image" -}}
{{- $image := .Values.image -}}
{{- $name := $image.repository -}}
{{- with $image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "spantap.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "spantap.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The least number of pods. */}}
{{- define "spantap.minReplicas" -}}
{{- if .Values.autoscaling.enabled }}{{ int .Values.autoscaling.minReplicas }}{{ else }}{{ int .Values.replicaCount }}{{ end -}}
{{- end -}}

{{/* podDisruptionBudget.minAvailable as text: a number, per cent, or nothing. */}}
{{- define "spantap.minAvailable" -}}
{{- with .Values.podDisruptionBudget -}}
{{- if not (kindIs "invalid" .minAvailable) }}{{ .minAvailable }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The scheme of the traffic port. */}}
{{- define "spantap.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* Whether requests must show a key: "true", or nothing. */}}
{{- define "spantap.hasInboundKeys" -}}
{{- if or .Values.inboundKeys.existingSecret .Values.inboundKeys.digests }}true{{ end -}}
{{- end -}}

{{/* Whether spantap holds a provider's key: "true", or nothing. */}}
{{- define "spantap.holdsKey" -}}
{{- $holds := .Values.upstream.existingSecret -}}
{{- range .Values.upstreams }}{{ if .existingSecret }}{{ $holds = "yes" }}{{ end }}{{ end -}}
{{- if $holds }}true{{ end -}}
{{- end -}}

{{/* A probe: where it asks in another way than the chart's HTTP, that goes. */}}
{{- define "spantap.probe" -}}
{{- $probe := . -}}
{{- if or .exec .grpc .tcpSocket }}{{ $probe = omit . "httpGet" }}{{ end -}}
{{- toYaml $probe -}}
{{- end -}}

{{/* A size in Ki, Mi, Gi or Ti, in bytes. */}}
{{- define "spantap.bytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[KMGT]i$" .) | int64) -}}
{{- end -}}

{{/* The port of a URL, or of host:port. */}}
{{- define "spantap.urlPort" -}}
{{- $host := regexReplaceAll "^[a-z]+://" . "" | regexFind "^[^/?#]*" -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- $port | default (ternary "80" "443" (hasPrefix "http://" .)) -}}
{{- end -}}

{{/* A value as a variable has it: numbers without an exponent, lists with commas, tables as JSON. */}}
{{- define "spantap.variable" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{/* The tables of upstreams as JSON; empty where the base URL says it all. */}}
{{- define "spantap.upstreamTables" -}}
{{- $tables := list -}}
{{- with .Values.upstream -}}
{{- if .existingSecret -}}
{{- $tables = append $tables (dict "name" "default" "url" .baseUrl "api_key_env" "UPSTREAM_KEY") -}}
{{- end -}}
{{- end -}}
{{- range $number, $upstream := .Values.upstreams -}}
{{- $table := dict "name" .name "url" .url "prefix" .prefix -}}
{{- with .usagePolicy }}{{ $_ := set $table "usage" . }}{{ end -}}
{{- with .websockets }}{{ $_ := set $table "websockets" . }}{{ end -}}
{{- with .provider }}{{ $_ := set $table "provider" . }}{{ end -}}
{{- with .keyHeader }}{{ $_ := set $table "api_key_header" . }}{{ end -}}
{{- if .existingSecret }}{{ $_ := set $table "api_key_env" (printf "UPSTREAM_KEY_%d" $number) }}{{ end -}}
{{- $tables = append $tables $table -}}
{{- end -}}
{{- if $tables }}{{ toJson $tables }}{{ end -}}
{{- end -}}

{{/* The prices as JSON, by the program's names. */}}
{{- define "spantap.prices" -}}
{{- $prices := list -}}
{{- range .Values.config.prices -}}
{{- $price := dict -}}
{{- range $key, $value := . }}{{ $_ := set $price (snakecase $key) $value }}{{ end -}}
{{- $prices = append $prices $price -}}
{{- end -}}
{{- toJson $prices -}}
{{- end -}}

{{/* A variable from a Secret. */}}
{{- define "spantap.secretVariable" -}}
- name: {{ .name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end -}}

{{/* The files that Secrets become: lists of name, secret, folder and items, in one object. */}}
{{- define "spantap.secretFiles" -}}
{{- $files := list -}}
{{- $pair := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") -}}
{{- with .Values -}}
{{- if include "spantap.hasInboundKeys" $ -}}
{{- $items := list (dict "key" .inboundKeys.secretKey "path" "keys") -}}
{{- $files = append $files (dict "name" "inbound-keys" "secret" (include "spantap.keysSecret" $) "items" $items) -}}
{{- end -}}
{{- with .tls.existingSecret }}{{ $files = append $files (dict "name" "tls" "secret" . "items" $pair) }}{{ end -}}
{{- with .upstream.clientCertSecret }}{{ $files = append $files (dict "name" "upstream-client" "secret" . "items" $pair) }}{{ end -}}
{{- with .otel.clientCertSecret }}{{ $files = append $files (dict "name" "otlp-client" "secret" . "items" $pair) }}{{ end -}}
{{- if .upstream.caSecret -}}
{{- $items := list (dict "key" .upstream.caKey "path" "ca.crt") -}}
{{- $files = append $files (dict "name" "upstream-ca" "secret" .upstream.caSecret "items" $items) -}}
{{- end -}}
{{- if .otel.caSecret -}}
{{- $items := list (dict "key" .otel.caKey "path" "ca.crt") -}}
{{- $files = append $files (dict "name" "otlp-ca" "secret" .otel.caSecret "items" $items) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "files" $files) -}}
{{- end -}}
