package runc_test

import (
	stdcontext "context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Who stands on the bridge beside the pods. stranger is no peer of any policy.
const (
	trainer    = "10.99.0.1"
	policy     = "10.99.0.2"
	monitoring = "10.99.0.3"
	kubelet    = "10.99.0.4"
	stranger   = "10.99.0.5"
)

var (
	podAddress = map[string]string{"nats": "10.99.0.11", "reward": "10.99.0.12", "worker": "10.99.0.13", "sft": "10.99.0.14"}
	others     = map[string]labels.Set{
		policy: {"app": "policy"}, trainer: {"app.kubernetes.io/name": "trainer"},
	}
	namespaces = map[string]labels.Set{monitoring: {"kubernetes.io/metadata.name": "monitoring"}}
)

func sh(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
}

// bridge makes the network of the pods in a network namespace of its own, and returns the namespace's name.
func bridge(t *testing.T) string {
	t.Helper()
	name := "verigraph-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	sh(t, "ip", "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	sh(t, "ip", "-n", name, "link", "add", "br0", "type", "bridge")
	for _, a := range []string{trainer, policy, monitoring, kubelet, stranger} {
		sh(t, "ip", "-n", name, "address", "add", a+"/24", "dev", "br0")
	}
	sh(t, "ip", "-n", name, "link", "set", "br0", "up")
	sh(t, "ip", "-n", name, "link", "set", "lo", "up")
	return name
}

// client makes requests from an address on the bridge.
func client(hub, from string) *http.Client {
	dial := func(ctx stdcontext.Context, network, address string) (net.Conn, error) {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + hub)
		if err != nil {
			return nil, err
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return nil, err
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		return d.DialContext(ctx, network, address)
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// peers are the addresses that a rule names.
func (c chart) peers(list []networking.NetworkPolicyPeer) (out []string) {
	for _, p := range list {
		known := map[string]labels.Set{}
		switch {
		case p.NamespaceSelector != nil:
			for a, l := range namespaces {
				if labels.SelectorFromSet(p.NamespaceSelector.MatchLabels).Matches(l) {
					out = append(out, a)
				}
			}
			continue
		case p.IPBlock != nil:
			out = append(out, p.IPBlock.CIDR)
			continue
		}
		for part, pod := range c.pods {
			known[podAddress[part]] = pod.Labels
		}
		for a, l := range others {
			known[a] = l
		}
		for a, l := range known {
			if labels.SelectorFromSet(p.PodSelector.MatchLabels).Matches(l) {
				out = append(out, a)
			}
		}
	}
	return out
}

// rules are the network policies of a part's pod, as a plugin would enforce them: what no rule allows is refused.
func (c chart) rules(t *testing.T, part string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("*filter\n:INPUT ACCEPT\n:OUTPUT ACCEPT\n")
	for _, chain := range []string{"INPUT -i", "OUTPUT -o"} {
		name, _, _ := strings.Cut(chain, " ")
		fmt.Fprintf(&b, "-A %s lo -j ACCEPT\n-A %s -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n", chain, name)
	}
	fmt.Fprintf(&b, "-A INPUT -s %s -j ACCEPT\n", kubelet)
	found := false
	for _, p := range c.policies {
		if !labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(labels.Set(c.pods[part].Labels)) {
			continue
		}
		found = true
		allow := func(flag string, from []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort) {
			for _, a := range c.peers(from) {
				for _, port := range ports {
					fmt.Fprintf(&b, "-A %s %s -p %s --dport %d -j ACCEPT\n", flag, a, strings.ToLower(string(*port.Protocol)), port.Port.IntValue())
				}
			}
		}
		for _, r := range p.Spec.Ingress {
			allow("INPUT -s", r.From, r.Ports)
		}
		for _, r := range p.Spec.Egress {
			allow("OUTPUT -d", r.To, r.Ports)
		}
	}
	require.True(t, found, "no network policy for %s", part)
	b.WriteString("-A INPUT -p tcp -j REJECT --reject-with tcp-reset\n-A INPUT -j REJECT\n-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset\n-A OUTPUT -j REJECT\nCOMMIT\n")
	return b.String()
}
