{{/* The configuration of a kube-scheduler that asks the extender about pods with GPUs. Arguments: root, url. */}}
{{- define "gpu-booking.asking" -}}
# With fewer, the only node with a free GPU may not be among those that kube-scheduler examines.
percentageOfNodesToScore: 100
extenders:
  - urlPrefix: {{ .url }}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    bindVerb: bind
    weight: {{ .root.Values.scheduler.weight }}
    # The extender answers a bind within 4 s, whatever it waits for.
    httpTimeout: 5s
    # Names are sent, not whole Nodes: the extender accepts nothing else.
    nodeCacheCapable: true
    # Otherwise pods would be bound without devices while the extender is unavailable.
    ignorable: false
    {{- if not .root.Values.dra.booking }}
    # kube-scheduler counts GPUs, too, as the kubelet will.
    managedResources:
      - name: nvidia.com/gpu
        ignoredByScheduler: false
      # How much of a GPU is free only the extender counts, see pluginConfig.
      - name: nvidia.com/gpu.shared
        ignoredByScheduler: false
      {{- range .root.Values.scheduler.migProfiles }}
      - name: nvidia.com/mig-{{ . }}
        ignoredByScheduler: false
      {{- end }}
    {{- end }}
{{- end }}

{{/* What a profile of kube-scheduler must leave to the extender: shares of GPUs, and how large they are. */}}
{{- define "gpu-booking.sharesPlugin" -}}
pluginConfig:
  - name: NodeResourcesFit
    args:
      # No node offers amounts. The kubelet counts slots, one for each GPU of which a container has a share.
      ignoredResources:
        - nvidia.com/gpu.shared
        - nvidia.com/gpumem
        - nvidia.com/gpumem-percentage
        - nvidia.com/gpucores
        - aliyun.com/gpu-mem
{{- end }}

{{/* Mode dedicated: the whole configuration of our own kube-scheduler. Argument: the root context. */}}
{{- define "gpu-booking.dedicatedScheduler" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
# 50 requests per second, the default, are too few for a burst of pods.
clientConnection: {qps: 1000, burst: 2000}
# Two schedulers with the same profile would decide about the same pod.
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: gpu-booking-scheduler
  # A leader that is killed is replaced after about twelve seconds; with the defaults it would be about eighteen.
  leaseDuration: 10s
  renewDeadline: 7s
  retryPeriod: 1s
profiles:
  - schedulerName: {{ .Values.scheduler.name | quote }}
    {{- include "gpu-booking.sharesPlugin" . | nindent 4 }}
{{ include "gpu-booking.asking" (dict "root" . "url" "http://127.0.0.1:8880") }}
{{- end }}

{{/*
Mode existing: a whole configuration for the cluster's own kube-scheduler, as a scheduler set up by kubeadm needs it. An
administrator who already has one copies the part from percentageOfNodesToScore on. Argument: the root context.
*/}}
{{- define "gpu-booking.existingScheduler" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
leaderElection: {leaderElect: true}
profiles:
  - schedulerName: {{ .Values.scheduler.name | quote }}
    {{- include "gpu-booking.sharesPlugin" . | nindent 4 }}
{{ include "gpu-booking.asking" (dict "root" . "url" "https://CLUSTER-IP:8880") }}
    # Without a caFile kube-scheduler would trust any server.
    enableHTTPS: true
    tlsConfig:
      serverName: gpu-booking-extender.{{ .Release.Namespace }}.svc
      caFile: /etc/kubernetes/gpu-booking/ca.crt
      certFile: /etc/kubernetes/gpu-booking/scheduler.crt
      keyFile: /etc/kubernetes/gpu-booking/scheduler.key
{{- end }}
