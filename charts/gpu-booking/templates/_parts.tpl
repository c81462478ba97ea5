{{/* Labels of every object. Argument: the root context. */}}
{{- define "gpu-booking.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/name: gpu-booking
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels by which a part's pods are found. Arguments: root, part. */}}
{{- define "gpu-booking.selector" -}}
app.kubernetes.io/name: gpu-booking
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* A part's ServiceAccount. Arguments: root, account; values (of the part), if there are any. */}}
{{- define "gpu-booking.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
  {{- with ((.values | default dict).serviceAccount | default dict).annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Gives an account a ClusterRole in all namespaces. Arguments: root, account, role; name, if not the role's. */}}
{{- define "gpu-booking.everywhere" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name | default .role }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Gives an account a Role. Arguments: root, account, role; name and namespace, if not the role's and ours. */}}
{{- define "gpu-booking.here" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name | default .role }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/*
A part's Service: to its pods, or to the address outside the cluster where it runs.
Arguments: root, part, name, port (of the Service), target (of the pods), external (address and port, or empty); service
(type, nodePort, annotations) where people reach it.
*/}}
{{- define "gpu-booking.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
  {{- with (.service | default dict).annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .service }}
  type: {{ .type }}
  {{- end }}
  ports:
    - name: {{ .portName }}
      port: {{ .port }}
      targetPort: {{ .external.port | default .target }}
      {{- with (.service | default dict).nodePort }}
      nodePort: {{ . }}
      {{- end }}
{{- if .external }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {{ .name }}-external
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "gpu-booking.labels" .root | nindent 4 }}
    kubernetes.io/service-name: {{ .name }}
    endpointslice.kubernetes.io/managed-by: helm
addressType: {{ contains ":" .external.address | ternary "IPv6" "IPv4" }}
ports:
  - name: {{ .portName }}
    port: {{ .external.port }}
    protocol: TCP
endpoints:
  - addresses: [{{ .external.address | quote }}]
    conditions: {ready: true}
{{- else }}
  selector: {{- include "gpu-booking.selector" . | nindent 4 }}
{{- end }}
{{- end }}

{{/* Which nodes have no node agent: none, labelled or all. */}}
{{- define "gpu-booking.withoutAgent" -}}
{{- .Values.nodeAgent.without | default (ternary "none" "all" .Values.nodeAgent.enabled) -}}
{{- end }}
