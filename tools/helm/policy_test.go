package helm_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// pods are the pod templates of a golden file by object.
func pods(all map[string]any) map[string]core.PodTemplateSpec {
	out := map[string]core.PodTemplateSpec{}
	for key, o := range all {
		switch v := o.(type) {
		case *apps.Deployment:
			out[key] = v.Spec.Template
		case *apps.StatefulSet:
			out[key] = v.Spec.Template
		case *batch.Job:
			out[key] = v.Spec.Template
		}
	}
	return out
}

// problems are what a pod has that it must not have. Only the worker of tier strict may hold privileges, and only
// inside a user namespace.
func problems(key string, pod core.PodSpec) (out []string) {
	bad := func(broken bool, what string, args ...any) {
		if broken {
			out = append(out, fmt.Sprintf(what, args...))
		}
	}
	userns := pod.HostUsers != nil && !*pod.HostUsers
	strict := strings.HasSuffix(key, "-worker") && userns
	bad(pod.HostNetwork || pod.HostPID || pod.HostIPC, "shares a namespace with the node")
	bad(pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken, "holds a token of the API server")
	ps := pod.SecurityContext
	bad(ps == nil || ps.SeccompProfile == nil, "no seccomp profile is stated")
	if !strict && ps != nil {
		bad(ps.RunAsNonRoot == nil || !*ps.RunAsNonRoot, "may run as root")
		bad(ps.RunAsUser == nil || *ps.RunAsUser == 0, "runs as root")
		bad(ps.SeccompProfile != nil && ps.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault, "seccomp is not the runtime's")
		bad(ps.AppArmorProfile != nil, "AppArmor is changed")
	}
	for _, v := range pod.Volumes {
		bad(v.HostPath != nil, "volume %s is a path of the node", v.Name)
		bad(v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil, "volume %s has no size", v.Name)
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		s := c.SecurityContext
		if s == nil {
			out = append(out, c.Name+" has no security context")
			continue
		}
		bad(s.Privileged != nil && *s.Privileged, "%s is privileged", c.Name)
		bad(s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem, "%s may write its root", c.Name)
		bad(s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL", "%s keeps capabilities", c.Name)
		if !strict {
			bad(s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "%s may gain privileges", c.Name)
			bad(s.Capabilities != nil && len(s.Capabilities.Add) > 0, "%s adds capabilities", c.Name)
			bad(s.ProcMount != nil, "%s changes /proc", c.Name)
		}
		bad(c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero(), "%s requests nothing", c.Name)
		bad(c.Resources.Limits.Memory().IsZero(), "%s has no limit of memory", c.Name)
		if !strings.Contains(key, "Job/") {
			bad(c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil, "%s lacks a probe", c.Name)
		}
		for _, e := range c.Env {
			secret := strings.Contains(e.Name, "KEY") || strings.Contains(e.Name, "TOKEN") || strings.Contains(e.Name, "SECRET")
			bad(secret && (e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil), "%s holds %s in the clear", c.Name, e.Name)
		}
		mounted := map[string]bool{}
		for _, v := range pod.Volumes {
			mounted[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			bad(!mounted[m.Name] && m.Name != "data", "%s mounts %s, which is no volume", c.Name, m.Name)
		}
	}
	return out
}

func TestPodsHaveNoPrivilegeThatTheirTierDoesNotSay(t *testing.T) {
	for _, file := range goldens(t) {
		for key, pod := range pods(objects(t, file)) {
			require.Empty(t, problems(key, pod.Spec), "%s: %s", file, key)
		}
	}
}

func TestThePolicyCheckSeesWhatIsWrong(t *testing.T) {
	yes, root := true, int64(0)
	pod := pods(objects(t, filepath.Join(goldenDir, "confined.yaml")))["Deployment/verigraph-worker"].Spec
	for want, spoil := range map[string]func(*core.PodSpec){
		"shares a namespace": func(p *core.PodSpec) { p.HostNetwork = true },
		"token of the API":   func(p *core.PodSpec) { p.AutomountServiceAccountToken = &yes },
		"runs as root":       func(p *core.PodSpec) { p.SecurityContext.RunAsUser = &root },
		"is privileged":      func(p *core.PodSpec) { p.Containers[0].SecurityContext.Privileged = &yes },
		"adds capabilities": func(p *core.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []core.Capability{"SYS_ADMIN"}
		},
		"no limit of memory": func(p *core.PodSpec) { p.Containers[0].Resources.Limits = nil },
		"lacks a probe":      func(p *core.PodSpec) { p.Containers[0].LivenessProbe = nil },
		"in the clear":       func(p *core.PodSpec) { p.Containers[0].Env = []core.EnvVar{{Name: "X_TOKEN", Value: "s"}} },
		"is a path of the node": func(p *core.PodSpec) {
			p.Volumes = append(p.Volumes, core.Volume{Name: "x", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/"}}})
		},
	} {
		copied := pod.DeepCopy()
		spoil(copied)
		require.Contains(t, strings.Join(problems("Deployment/verigraph-worker", *copied), "; "), want)
	}
}

// The tier of the configuration and the privileges of the pod come from one value.
func TestTheWorkersPodGivesWhatItsTierNeedsAndNoMore(t *testing.T) {
	for file, tier := range map[string]string{"default": "strict", "gvisor": "gvisor", "confined": "confined"} {
		all := objects(t, filepath.Join(goldenDir, file+".yaml"))
		pod := pods(all)["Deployment/verigraph-worker"].Spec
		require.Contains(t, all["ConfigMap/verigraph-config"].(*core.ConfigMap).Data["rollout-worker.yaml"], "min_tier: "+tier)
		require.Equal(t, tier == "gvisor", pod.RuntimeClassName != nil, file)
		require.Equal(t, tier == "strict", pod.HostUsers != nil && !*pod.HostUsers, file)
		s := pod.Containers[0].SecurityContext
		if tier == "strict" {
			require.Equal(t, []core.Capability{"SYS_ADMIN", "SETFCAP"}, s.Capabilities.Add)
			require.Equal(t, core.UnmaskedProcMount, *s.ProcMount)
		}
	}
}

func TestSelectorsAndReferencesMeetTheirPods(t *testing.T) {
	for _, file := range goldens(t) {
		all := objects(t, file)
		matches := func(s meta.LabelSelector) (n int) {
			sel, err := meta.LabelSelectorAsSelector(&s)
			require.NoError(t, err)
			for _, p := range pods(all) {
				if sel.Matches(labels.Set(p.Labels)) {
					n++
				}
			}
			return n
		}
		for key, o := range all {
			switch v := o.(type) {
			case *core.Service:
				require.Equal(t, 1, matches(meta.LabelSelector{MatchLabels: v.Spec.Selector}), "%s: %s", file, key)
			case *policy.PodDisruptionBudget:
				require.Equal(t, 1, matches(*v.Spec.Selector), "%s: %s", file, key)
			case *networking.NetworkPolicy:
				require.Equal(t, 1, matches(v.Spec.PodSelector), "%s: %s", file, key)
				require.Len(t, v.Spec.PolicyTypes, 2, key)
				for _, e := range v.Spec.Egress {
					require.NotEmpty(t, e.To, "%s: %s: an egress rule without a peer allows all", file, key)
					require.NotEmpty(t, e.Ports, "%s: %s", file, key)
				}
			case *scaledObject:
				require.Contains(t, all, "Deployment/"+v.Spec.ScaleTargetRef.Name)
				require.Nil(t, all["Deployment/"+v.Spec.ScaleTargetRef.Name].(*apps.Deployment).Spec.Replicas, "KEDA and Helm would fight")
				require.Equal(t, "PROMPTS", v.Spec.Triggers[0].Metadata["stream"])
			case *serviceMonitor:
				found := 0
				sel, err := meta.LabelSelectorAsSelector(&v.Spec.Selector)
				require.NoError(t, err)
				for _, other := range all {
					if s, ok := other.(*core.Service); ok && sel.Matches(labels.Set(s.Labels)) {
						found++
					}
				}
				require.Equal(t, 2, found, file)
			}
		}
	}
}

// What an operator trips over after everything was created.
func TestWhatThePodsSayFitsTogether(t *testing.T) {
	for _, file := range goldens(t) {
		all := objects(t, file)
		require.Empty(t, misfits(all), file)
	}
}

// misfits are contradictions between a chart's objects and the configuration in them.
func misfits(all map[string]any) (out []string) {
	var secrets []core.LocalObjectReference
	for key, pod := range pods(all) {
		if strings.HasSuffix(key, "-worker") {
			secrets = pod.Spec.ImagePullSecrets
			out = append(out, workerMisfits(all, pod.Spec)...)
		}
	}
	for key, pod := range pods(all) {
		if !slices.Equal(secrets, pod.Spec.ImagePullSecrets) {
			out = append(out, key+" lacks the pull secrets")
		}
		for _, c := range pod.Spec.Containers {
			ports := map[string]bool{}
			for _, p := range c.Ports {
				ports[p.Name] = true
			}
			for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p != nil && !ports[p.HTTPGet.Port.StrVal] {
					out = append(out, key+" probes a port that it does not name: "+p.HTTPGet.Port.String())
				}
			}
		}
	}
	for key, o := range all {
		if b, ok := o.(*policy.PodDisruptionBudget); ok && b.Spec.MaxUnavailable == nil {
			out = append(out, key+" keeps a lone pod on its node for ever: a share that must stay is rounded up")
		}
	}
	return out
}

func workerMisfits(all map[string]any, pod core.PodSpec) (out []string) {
	var cfg struct {
		Worker struct {
			CacheBytes int64  `json:"cache_bytes"`
			Drain      string `json:"drain"`
		} `json:"worker"`
	}
	for _, o := range all {
		if m, ok := o.(*core.ConfigMap); ok && m.Data["rollout-worker.yaml"] != "" {
			if err := yaml.Unmarshal([]byte(m.Data["rollout-worker.yaml"]), &cfg); err != nil {
				return []string{err.Error()}
			}
		}
	}
	drain, err := time.ParseDuration(cfg.Worker.Drain)
	if err != nil {
		return []string{err.Error()}
	}
	const stopMargin = 20 * time.Second // of cmd/internal/process
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < drain+stopMargin {
		out = append(out, fmt.Sprintf("a worker drains for %s and is killed after %s", drain, grace))
	}
	confined := pod.SecurityContext.RunAsUser != nil && *pod.SecurityContext.RunAsUser != 0 && pod.RuntimeClassName == nil
	for _, v := range pod.Volumes {
		switch {
		case v.Name == "cache" && (cfg.Worker.CacheBytes == 0 || v.EmptyDir.SizeLimit.Value() <= cfg.Worker.CacheBytes):
			out = append(out, "the cache grows past its volume, and the kubelet evicts the pod")
		case v.Name == "tmp" && confined && v.EmptyDir.Medium != core.StorageMediumMemory:
			out = append(out, "a session that fills /tmp has the pod evicted")
		}
	}
	if pod.SecurityContext.FSGroup == nil || *pod.SecurityContext.FSGroup != 10001 {
		out = append(out, "what a worker writes to a claim is not the other pods'")
	}
	return out
}

func TestTheCheckOfWhatFitsTogetherSeesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(worker *core.PodSpec, all map[string]any){
		"killed after":          func(w *core.PodSpec, _ map[string]any) { *w.TerminationGracePeriodSeconds = 79 },
		"past its volume":       func(w *core.PodSpec, _ map[string]any) { *volume(w, "cache").SizeLimit = resource.MustParse("16Gi") },
		"fills /tmp":            func(w *core.PodSpec, _ map[string]any) { volume(w, "tmp").Medium = "" },
		"not the other pods'":   func(w *core.PodSpec, _ map[string]any) { w.SecurityContext.FSGroup = nil },
		"lacks the pull secret": func(w *core.PodSpec, _ map[string]any) { w.ImagePullSecrets = []core.LocalObjectReference{{Name: "x"}} },
		"does not name":         func(w *core.PodSpec, _ map[string]any) { w.Containers[0].Ports = nil },
		"lone pod": func(_ *core.PodSpec, all map[string]any) {
			all["PodDisruptionBudget/verigraph-worker"].(*policy.PodDisruptionBudget).Spec.MaxUnavailable = nil
		},
	} {
		all := objects(t, filepath.Join(goldenDir, "confined.yaml"))
		spoil(&all["Deployment/verigraph-worker"].(*apps.Deployment).Spec.Template.Spec, all)
		require.Contains(t, strings.Join(misfits(all), "; "), want)
	}
}

func volume(p *core.PodSpec, name string) *core.EmptyDirVolumeSource {
	for _, v := range p.Volumes {
		if v.Name == name {
			return v.EmptyDir
		}
	}
	return nil
}
