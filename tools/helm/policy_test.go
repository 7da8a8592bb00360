package helm_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
