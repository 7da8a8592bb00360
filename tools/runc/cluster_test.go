package runc_test

import (
	stdcontext "context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
)

const patience = 1 * time.Minute

// cluster places the pods of a chart as a node does, as far as their programs can notice.
type cluster struct {
	chart
	hub     string // the network namespace of the bridge
	dir     string // of hosts, rules, logs and claims
	secrets map[string]map[string][]byte
	claims  map[string]string // directories by claim
}

type container struct {
	cmd  *exec.Cmd
	name string
	log  string
	done chan error
}

func newCluster(t *testing.T, set string) *cluster {
	t.Helper()
	c := &cluster{chart: rendered(t, set), hub: bridge(t), dir: containerDir(t), secrets: map[string]map[string][]byte{}, claims: map[string]string{}}
	hosts := "127.0.0.1 localhost\n" + policy + " policy\n"
	for service, part := range c.services {
		hosts += podAddress[part] + " " + service + "\n"
	}
	c.write(t, "hosts", []byte(hosts))
	return c
}

func (c *cluster) write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

// claim is the directory of a claim, made when a pod first asks for it.
func (c *cluster) claim(t *testing.T, name string) string {
	t.Helper()
	if c.claims[name] == "" {
		c.claims[name] = filepath.Join(c.dir, "claims", name)
		require.NoError(t, os.MkdirAll(c.claims[name], 0o755))
	}
	return c.claims[name]
}

// volume is the directory behind a mount of a pod.
func (c *cluster) volume(t *testing.T, part string, p core.PodSpec, name string) string {
	t.Helper()
	for _, v := range p.Volumes {
		dir := filepath.Join(c.dir, part, v.Name)
		switch {
		case v.Name != name:
			continue
		case v.ConfigMap != nil:
			for file, text := range c.configs[v.ConfigMap.Name] {
				c.write(t, filepath.Join(part, v.Name, file), []byte(text))
			}
		case v.Secret != nil:
			for file, data := range c.secrets[v.Secret.SecretName] {
				c.write(t, filepath.Join(part, v.Name, file), data)
			}
		case v.PersistentVolumeClaim != nil:
			dir = c.claim(t, v.PersistentVolumeClaim.ClaimName)
		case v.EmptyDir != nil:
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.Chmod(dir, 0o777))
		}
		return dir
	}
	return c.claim(t, part+"-"+name) // of a StatefulSet
}

// mounts are the pod's volumes. As a kubelet does, those of a pod with an fsGroup belong to that group, and those of a
// pod in a user namespace are mapped into it.
func (c *cluster) mounts(t *testing.T, part string, p core.PodSpec) []specs.Mount {
	t.Helper()
	out := []specs.Mount{bound("/etc/hosts", filepath.Join(c.dir, "hosts"), "ro")}
	for _, m := range p.Containers[0].VolumeMounts {
		if size := inMemory(p, m.Name); size > 0 {
			options := []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", size)}
			out = append(out, specs.Mount{Destination: m.MountPath, Source: "tmpfs", Type: "tmpfs", Options: options})
			continue
		}
		dir := c.volume(t, part, p, m.Name)
		if g := p.SecurityContext.FSGroup; g != nil && !m.ReadOnly {
			require.NoError(t, os.Chown(dir, -1, int(*g)))
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.NoError(t, syscall.Chmod(dir, uint32(info.Mode().Perm())|syscall.S_ISGID|0o070))
		}
		if userns(p) {
			dir = idmapped(t, dir)
		}
		option := "rw"
		if m.ReadOnly {
			option = "ro"
		}
		out = append(out, bound(m.MountPath, dir, option))
	}
	return out
}

// inMemory is the size of an emptyDir that is memory, 0 for other volumes.
func inMemory(p core.PodSpec, name string) int64 {
	for _, v := range p.Volumes {
		if v.Name == name && v.EmptyDir != nil && v.EmptyDir.Medium == core.StorageMediumMemory {
			return v.EmptyDir.SizeLimit.Value()
		}
	}
	return 0
}

func (c *cluster) env(t *testing.T, part string, list []core.EnvVar) (out []string) {
	t.Helper()
	for _, e := range list {
		value := e.Value
		if from := e.ValueFrom; from != nil && from.FieldRef != nil {
			require.Equal(t, "status.podIP", from.FieldRef.FieldPath)
			value = podAddress[part]
		} else if from != nil {
			data, ok := c.secrets[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
			require.True(t, ok, "%s: secret %s has no key %s", part, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
			value = string(data)
		}
		out = append(out, e.Name+"="+value)
	}
	return out
}

// start starts the pod of a part with the command and arguments that the chart gives it.
func (c *cluster) start(t *testing.T, part string) *container {
	t.Helper()
	p, dir := c.pods[part].Spec, containerDir(t)
	main := p.Containers[0]
	sys, args := system{}, append(main.Command, main.Args...)
	if part == "nats" {
		sys, args = natsImage(t, filepath.Join(dir, "rootfs")), append([]string{"/nats-server"}, args...)
	} else {
		sys = imageOf(t, filepath.Join(dir, "rootfs"))
	}
	rules := c.write(t, part+".rules", []byte(c.rules(t, part)))
	hooks := &specs.Hooks{CreateRuntime: []specs.Hook{{
		Path: abs(t, "attach.sh"), Args: []string{"attach.sh", c.hub, part, podAddress[part], rules}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
	}}}
	bundle(t, dir, p, sys, args, c.env(t, part, main.Env), c.mounts(t, part, p), hooks)
	k := &container{name: filepath.Base(dir), log: filepath.Join(c.dir, part+".log"), done: make(chan error, 1)}
	log, err := os.Create(k.log)
	require.NoError(t, err)
	k.cmd = exec.Command("runc", "run", "--bundle", dir, k.name)
	k.cmd.Stdout, k.cmd.Stderr = log, log
	require.NoError(t, k.cmd.Start())
	require.NoError(t, log.Close())
	go func() { k.done <- k.cmd.Wait() }()
	t.Cleanup(func() { _ = exec.Command("runc", "delete", "--force", k.name).Run() })
	return k
}

func (k *container) text() string {
	data, _ := os.ReadFile(k.log)
	return string(data)
}

// wait returns once the container's program has ended by itself.
func (k *container) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-k.done:
		require.NoError(t, err, k.text())
	case <-time.After(patience):
		t.Fatalf("does not end:\n%s", k.text())
	}
}

// stop is what a kubelet does: SIGTERM, and no SIGKILL may be needed.
func (k *container) stop(t *testing.T) {
	t.Helper()
	sh(t, "runc", "kill", k.name, "TERM")
	k.wait(t)
}

// exec runs a command in the running container, as kubectl exec does.
func (k *container) exec(args ...string) (string, error) {
	out, err := exec.Command("runc", append([]string{"exec", k.name}, args...)...).CombinedOutput()
	return string(out), err
}

// ready asks the startup probe of a part's pod until it answers.
func (c *cluster) ready(t *testing.T, part string, k *container) {
	t.Helper()
	main := c.pods[part].Spec.Containers[0]
	probe := main.StartupProbe.HTTPGet
	url := "http://" + podAddress[part] + ":" + port(t, main, probe.Port.String()) + probe.Path
	ctx, cancel := stdcontext.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, _ := c.get(kubelet, url); status == http.StatusOK {
			return
		}
		select {
		case err := <-k.done:
			t.Fatalf("%s ended: %v\n%s", part, err, k.text())
		case <-ctx.Done():
			t.Fatalf("%s is never ready at %s:\n%s", part, url, k.text())
		case <-tick.C:
		}
	}
}

func port(t *testing.T, c core.Container, name string) string {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == name {
			return strconv.Itoa(int(p.ContainerPort))
		}
	}
	t.Fatalf("%s has no port %s", c.Name, name)
	return ""
}

// get asks from an address on the bridge; the status is 0 where nobody answers.
func (c *cluster) get(from, url string) (int, string) {
	res, err := client(c.hub, from).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// beside runs a command on the bridge, outside of any pod.
func (c *cluster) beside(args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", c.hub}, args...)...)
	cmd.Dir = root
	return cmd
}

// servePolicy answers as the policy at its address.
func (c *cluster) servePolicy(t *testing.T, model string) {
	t.Helper()
	bin := filepath.Join(c.dir, "serve")
	build(t, bin, "./policy/scripted/serve")
	cmd := c.beside(bin, "examples/dabench/script.jsonl", "0.0.0.0:8000", model)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx, cancel := stdcontext.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, _ := c.get(stranger, fmt.Sprintf("http://%s:8000/health", policy)); status == http.StatusOK {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the policy does not answer: %s", out.String())
		case <-tick.C:
		}
	}
}
