{{/* The distribution of Kubernetes: the value, or what the API server shows of it; kubeadm where it shows nothing. */}}
{{- define "gpu-booking.distribution" -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if .Values.distribution -}}
{{ .Values.distribution }}
{{- else if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
openshift
{{- else if contains "+k3s" $version -}}
k3s
{{- else if contains "+rke2" $version -}}
rke2
{{- else if contains "-gke." $version -}}
gke
{{- else if contains "-eks-" $version -}}
eks
{{- else -}}
kubeadm
{{- end -}}
{{- end }}

{{/* What the distribution needs (files/distributions.yaml), as YAML. */}}
{{- define "gpu-booking.preset" -}}
{{- get (.Files.Get "files/distributions.yaml" | fromYaml) (include "gpu-booking.distribution" .) | toYaml -}}
{{- end }}

{{/* A value of nodeAgent: given, of the distribution, or the usual one. Arguments: root, name, usual. */}}
{{- define "gpu-booking.onNode" -}}
{{- get .root.Values.nodeAgent .name | default (get (include "gpu-booking.preset" .root | fromYaml) .name) | default .usual -}}
{{- end }}

{{/*
The RuntimeClass of node agents, and of pods with shares where reservation pods open GPUs for them: the agent finds out by
its own container whether NVIDIA's runtime reads the variable, so both have the same.
*/}}
{{- define "gpu-booking.shareRuntime" -}}
{{- $agent := include "gpu-booking.onNode" (dict "root" . "name" "runtimeClassName" "usual" "") -}}
{{- $share := .Values.sharing.reservationPods.enabled | ternary .Values.sharing.reservationPods.runtimeClassName "" -}}
{{- if and .Values.nodeAgent.runtimeClassName $share (ne .Values.nodeAgent.runtimeClassName $share) -}}
{{- fail "nodeAgent.runtimeClassName and sharing.reservationPods.runtimeClassName differ: an agent can only find out about its own RuntimeClass whether pods with shares see their GPUs." -}}
{{- end -}}
{{- $share | default $agent -}}
{{- end }}

{{/* "cluster" where the cluster gives pods their ids of users and groups. */}}
{{- define "gpu-booking.idsOfCluster" -}}
{{- get (include "gpu-booking.preset" . | fromYaml) "ids" -}}
{{- end }}

{{/* Which distribution this is taken for, and what follows. */}}
{{- define "gpu-booking.notesDistribution" -}}
{{- $which := include "gpu-booking.distribution" . -}}
{{- if ne $which "kubeadm" }}
This cluster is taken for {{ $which }}{{ if not .Values.distribution }}, by what its API server shows (`distribution` says otherwise){{ end }}.
{{- range $name, $value := omit (include "gpu-booking.preset" . | fromYaml) "ids" "scheduler" "security" }}
  nodeAgent.{{ $name }}: {{ get $.Values.nodeAgent $name | default $value }}
{{- end }}
{{- if and .Values.nodeAgent.enabled (include "gpu-booking.onNode" (dict "root" . "name" "runtimeClassName" "usual" "")) (not .Values.nodeAgent.nodeSelector) }}
  On nodes without that container runtime the agents' pods do not start: name the others in nodeAgent.nodeSelector.
{{- end }}
{{- end }}
{{- end }}
