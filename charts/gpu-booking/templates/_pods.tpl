{{/* An image's name. Arguments: root, part. */}}
{{- define "gpu-booking.image" -}}
{{- with .root.Values.image -}}
{{ with .registry }}{{ . }}/{{ end }}{{ .repository }}/{{ $.part }}:{{ .tag | default $.root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* What every pod of ours begins with. Arguments: root, part, values (of the part), account. */}}
{{- define "gpu-booking.podSpec" -}}
serviceAccountName: {{ .account }}
# Otherwise a Service of this namespace called gpu-booking would set GPU_BOOKING_PORT, which is a setting.
enableServiceLinks: false
priorityClassName: {{ .values.priorityClassName }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $own := dict "matchLabels" (include "gpu-booking.selector" $ | fromYaml) }}
  - {{- set (deepCopy .) "labelSelector" (.labelSelector | default $own) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
affinity:
{{- if .values.affinity }}
{{- toYaml .values.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "gpu-booking.selector" . | nindent 14 }}
{{- end }}
{{- end }}

{{/* Metadata of a part's pods. Arguments: root, part, values; annotations of ours, if there are any. */}}
{{- define "gpu-booking.podMetadata" -}}
labels:
  {{- include "gpu-booking.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .part }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict .values.podAnnotations (.annotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* How many pods of a part may be unavailable at once while nodes are drained. Arguments: root, part, values, name. */}}
{{- define "gpu-booking.disruptionBudget" -}}
{{- if .values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
spec:
  # Not minAvailable: with one replica, or where only one of several is ever Ready, no node could be drained.
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  # A pod that does not become ready must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "gpu-booking.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* A container's image and securityContext, as Pod Security's level restricted wants it. Arguments: root, part. */}}
{{- define "gpu-booking.container" -}}
image: {{ include "gpu-booking.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- include "gpu-booking.restricted" .root | nindent 2 }}
{{- end }}

{{/* The securityContext of a container that needs no rights. Argument: the root context. */}}
{{- define "gpu-booking.restricted" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- if not (include "gpu-booking.idsOfCluster" .) }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Probes of our own parts. Arguments: port. */}}
{{- define "gpu-booking.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}}
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}}
  periodSeconds: 2
  timeoutSeconds: 5
{{- end }}

{{/*
The environment of a part: the settings given, overridden by the values' `settings`, and `extraEnv`. A setting without a
value is left out, so that the part's own default holds. Arguments: given (setting -> value), values (of the part).
*/}}
{{- define "gpu-booking.environment" -}}
{{- $given := dict }}
{{- range $name, $value := .given }}{{ $_ := set $given ($name | upper) $value }}{{ end }}
{{- range $name, $value := .values.settings }}{{ $_ := set $given ($name | upper) $value }}{{ end }}
{{- range $name, $value := $given }}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "string" $value) (eq $value ""))) }}
- {name: GPU_BOOKING_{{ $name }}, value: {{ kindIs "string" $value | ternary $value ($value | toJson) | quote }}}
{{- end }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The folder of a node by which node agent, MPS's control daemons and their clients meet. Argument: the root context. */}}
{{- define "gpu-booking.mpsRoot" -}}
/run/gpu-booking/mps
{{- end }}
