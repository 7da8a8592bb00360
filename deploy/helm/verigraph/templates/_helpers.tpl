{{- define "verigraph.name" -}}
{{- printf "%s-verigraph" .Release.Name | replace "verigraph-verigraph" "verigraph" | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of one part: (list . "worker"). */}}
{{- define "verigraph.selector" -}}
app.kubernetes.io/name: verigraph
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "verigraph.labels" -}}
{{ include "verigraph.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end -}}

{{- define "verigraph.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "verigraph.natsURL" -}}
{{- if .Values.nats.builtin -}}
nats://{{ include "verigraph.name" . }}-nats:4222
{{- else -}}
{{ required "nats.url: nats.builtin is false, so the URL of a NATS server is needed" .Values.nats.url }}
{{- end -}}
{{- end -}}

{{/* The sections that every process reads. */}}
{{- define "verigraph.common" -}}
run: {{ .Values.run }}
blob: {{ .Values.blob.url }}
nats:
  url: {{ include "verigraph.natsURL" . }}
  {{- if .Values.nats.credentialsSecret.name }}
  credentials: /etc/verigraph/nats/user.creds
  {{- end }}
trainer:
  prompt_length: {{ .Values.trainer.promptLength | int64 }}
  response_length: {{ .Values.trainer.responseLength | int64 }}
admin:
  listen: ":9090"
{{- if .Values.traces.endpoint }}
telemetry:
  traces: {endpoint: {{ .Values.traces.endpoint | quote }}, sample_ratio: {{ .Values.traces.sampleRatio }}}
{{- end }}
{{- end -}}

{{- define "verigraph.workerConfig" -}}
{{- $own := dict
  "policy" (dict "base_url" .Values.policy.baseURL "model" .Values.policy.model "tokenizer" .Values.policy.tokenizer)
  "sandbox" (dict "python" "/opt/verigraph/python/bin/python" "min_tier" .Values.worker.tier)
  "worker" (dict "groups" (int64 .Values.worker.groups) "drain" .Values.worker.drain "cache" "/var/cache/verigraph" "cache_bytes" (mul (int64 .Values.worker.cacheGiB) 1073741824)) -}}
{{- if .Values.policy.apiKeySecret.name }}{{ $_ := set $own.policy "api_key_env" "VERIGRAPH_POLICY_KEY" }}{{ end -}}
{{- toYaml (mergeOverwrite (fromYaml (include "verigraph.common" .)) $own (deepCopy .Values.worker.config)) -}}
{{- end -}}

{{- define "verigraph.rewardConfig" -}}
{{- $own := dict
  "reward" (dict "preset" .Values.reward.preset "judge" .Values.reward.judge "groups" (int64 .Values.reward.groups))
  "feed" (dict "listen" ":50051" "advertise_env" "POD_IP") -}}
{{- if .Values.reward.feedTokenSecret.name }}{{ $_ := set $own.feed "token_env" "VERIGRAPH_FEED_TOKEN" }}{{ end -}}
{{- if .Values.reward.feedTLSSecret }}{{ $_ := set $own.feed "tls" (dict "cert" "/etc/verigraph/tls/tls.crt" "key" "/etc/verigraph/tls/tls.key") }}{{ end -}}
{{- if .Values.reward.judgeKeySecret.name }}{{ $_ := set $own.reward "openai" (dict "api_key_env" "VERIGRAPH_JUDGE_KEY") }}{{ end -}}
{{- toYaml (mergeOverwrite (fromYaml (include "verigraph.common" .)) $own (deepCopy .Values.reward.config)) -}}
{{- end -}}

{{/* An environment variable out of a Secret: (list NAME {name, key}). */}}
{{- define "verigraph.secretEnv" -}}
{{- $s := index . 1 -}}
{{- if $s.name }}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef: {name: {{ $s.name }}, key: {{ $s.key }}}
{{- end -}}
{{- end -}}

{{- define "verigraph.blobEnv" -}}
{{- if .Values.blob.secretName }}
envFrom:
  - secretRef: {name: {{ .Values.blob.secretName }}}
{{- end -}}
{{- end -}}

{{- define "verigraph.probes" -}}
startupProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "verigraph.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "verigraph.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "verigraph.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What the pods of a part have in common: (list . "worker"). */}}
{{- define "verigraph.pod" -}}
{{- $top := index . 0 -}}{{- $part := index . 1 -}}
{{- $class := index $top.Values.priorityClasses $part -}}
serviceAccountName: {{ include "verigraph.name" $top }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- include "verigraph.pullSecrets" $top }}
{{- if or $class.name $top.Values.priorityClasses.create }}
priorityClassName: {{ $class.name | default (printf "%s-%s" (include "verigraph.name" $top) $part) }}
{{- end }}
{{- if $top.Values.topologySpread.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $top.Values.topologySpread.key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "verigraph.selector" . | nindent 8 }}
{{- end }}
{{- with (index $top.Values $part).nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index $top.Values $part).tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "verigraph.natsVolume" -}}
{{- if .Values.nats.credentialsSecret.name }}
- name: nats
  secret:
    secretName: {{ .Values.nats.credentialsSecret.name }}
    items: [{key: {{ .Values.nats.credentialsSecret.key }}, path: user.creds}]
{{- end -}}
{{- end -}}

{{- define "verigraph.blobVolume" -}}
{{- if .Values.blob.existingClaim }}
- name: blob
  persistentVolumeClaim: {claimName: {{ .Values.blob.existingClaim }}}
{{- end -}}
{{- end -}}

{{/* Measured with make test-runc: without one of these the self-test fails. */}}
{{- define "verigraph.strictCapabilities" -}}
SYS_ADMIN, SETFCAP
{{- end -}}
