package gather

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/dns/plan"
	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/network/routes"
	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/options"
)

// resolverOf reads the servers of a resolver file for the doctor; no file is nothing to check.
func resolverOf(path string) *doctor.Resolver {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	r := &doctor.Resolver{Path: path, Err: err}
	for _, s := range plan.Nameservers(string(text), nil) {
		r.Servers = append(r.Servers, s.Addr().String())
	}
	return r
}

// Timeout is how long the doctor waits for one answer.
const Timeout = 5 * time.Second

// Gatherer looks at what the doctor checks.
type Gatherer struct {
	Instance *options.Instance
	Boot     string // id of this machine's boot; a node that reports it is this machine
}

func (s *Gatherer) Machine() *doctor.Machine {
	m := &doctor.Machine{}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		m.Unified = true
	}
	for _, at := range []struct{ path, holds string }{
		{s.Instance.DataDir, "state, images and Pods"}, {"/var/lib/containerd", "images"}, {"/var/lib/kubelet", "Pods"},
		{"/var/log", "logs"},
	} {
		if _, err := os.Stat(at.path); err != nil {
			continue
		}
		d, err := proc.StatFS(at.path)
		m.Disks = append(m.Disks, doctor.Disk{
			Path: at.path, Contents: at.holds, Capacity: d.CapacityBytes, Available: d.AvailableBytes, Inodes: d.Inodes,
			InodesFree: d.InodesFree, Err: err,
		})
	}
	return m
}

// Runtime asks the runtime of this machine; nil when there is none here, or it is not ours to ask.
func (s *Gatherer) Runtime(ctx context.Context) *doctor.Runtime {
	r := &doctor.Runtime{Endpoint: s.Instance.RuntimeEndpoint()}
	path, err := cri.SocketPath(r.Endpoint)
	if err != nil {
		r.Err = err
		return r
	}
	if _, err := os.Stat(path); os.IsPermission(err) || s.Instance.Runtime == "" && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	client, err := cri.Dial(ctx, cri.Options{Endpoint: r.Endpoint, Timeout: Timeout, FailFast: true})
	if err != nil {
		r.Err = err
		return r
	}
	defer client.Close()
	r.Name, r.Version = client.Version().GetRuntimeName(), client.Version().GetRuntimeVersion()
	status, err := client.ProbeRuntime().Status(ctx, false)
	if err != nil {
		r.Err = err
		return r
	}
	for _, c := range status.GetStatus().GetConditions() {
		if !c.Status {
			r.NotReady = append(r.NotReady, doctor.Condition{Type: c.Type, Reason: c.Reason, Message: c.Message})
		}
	}
	if f, err := client.Features(ctx); err == nil {
		r.CgroupDriver = f.CgroupDriver
	}
	return r
}

// Certificates are the instance's.
func (s *Gatherer) Certificates() []doctor.Certificate {
	var out []doctor.Certificate
	for _, pattern := range []string{"pki/*.crt", "kubelet-pki/*-current.pem", "kubelet-pki/*.crt"} {
		files, err := filepath.Glob(filepath.Join(s.Instance.DataDir, pattern))
		if err != nil {
			continue // only a bad pattern fails
		}
		for _, file := range files {
			c := doctor.Certificate{Where: file,
				Use: strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".crt"), "-current.pem")}
			if list, err := cert.CertsFromFile(file); err != nil {
				c.Err = err
			} else {
				c.NotBefore, c.NotAfter = list[0].NotBefore, list[0].NotAfter
			}
			out = append(out, c)
		}
	}
	return out
}

// API asks the API server for its version, and reads its clock.
func (s *Gatherer) API(ctx context.Context, cfg *rest.Config) *doctor.API {
	a := &doctor.API{URL: cfg.Host}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		a.Err = err
		return a
	}
	begun := time.Now()
	answer, err := httpGet(ctx, client, strings.TrimSuffix(cfg.Host, "/")+"/version")
	if err != nil {
		a.Err = err
		return a
	}
	a.Here, a.Took = time.Now(), time.Since(begun)
	if at, err := http.ParseTime(answer.header.Get("Date")); err == nil {
		a.Date = at
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	switch err := json.Unmarshal(answer.body, &version); {
	case answer.code != http.StatusOK:
		a.Err = fmt.Errorf("/version answered %d", answer.code)
	case err != nil:
		a.Err = fmt.Errorf("/version: %w", err)
	}
	a.Version = version.GitVersion
	a.Failing = failingChecks(ctx, client, strings.TrimSuffix(cfg.Host, "/"))
	return a
}

// httpAnswer is one of HTTP.
type httpAnswer struct {
	code   int
	header http.Header
	body   []byte
}

func httpGet(ctx context.Context, client *http.Client, url string) (httpAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return httpAnswer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return httpAnswer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	return httpAnswer{resp.StatusCode, resp.Header, body}, err
}

// Orphans asks the API server's metrics for its last audit; nil for who may not read them.
func (s *Gatherer) Orphans(ctx context.Context, client kubernetes.Interface) *doctor.Orphans {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil
	}
	return doctor.ReadOrphans(bytes.NewReader(text))
}

// Nodes looks at every node, some at a time.
func (s *Gatherer) Nodes(ctx context.Context, client kubernetes.Interface) []doctor.Node {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	out := make([]doctor.Node, len(list.Items))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range list.Items {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i] = s.node(ctx, client, &list.Items[i])
		})
	}
	wg.Wait()
	return out
}

func (s *Gatherer) node(ctx context.Context, client kubernetes.Interface, n *v1.Node) doctor.Node {
	out := doctor.Node{Name: n.Name, Local: s.Boot != "" && n.Status.NodeInfo.BootID == s.Boot,
		Ready: node.ReadyCondition(n)}
	page := func(path string) ([]byte, bool) {
		raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.Name).SubResource("proxy").Suffix(
			path).DoRaw(ctx)
		return raw, err == nil
	}
	if raw, ok := page("configz"); ok {
		var c struct {
			Config *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
		}
		if json.Unmarshal(raw, &c) == nil {
			out.Config = c.Config
		}
	}
	if out.Local && out.Config != nil && out.Config.ResolverConfig != nil {
		out.Resolver = resolverOf(*out.Config.ResolverConfig)
	}
	if raw, ok := page("metrics"); ok {
		out.Goroutines = gauge(raw, "go_goroutines")
		out.Fruitless = bySignal(raw, "gantry_evictions_fruitless")
		for _, n := range bySignal(raw, "kubelet_evictions") {
			out.Evictions += n
		}
	}
	if raw, ok := page("pods"); ok {
		out.Unmirrored = unmirrored(ctx, client, raw)
	}
	if raw, ok := page("drivercalls"); ok {
		var found server.DriverCalls
		if json.Unmarshal(raw, &found) == nil {
			out.Registered = append([]string{}, found.Registered...)
			for _, c := range found.Calls {
				out.Calls = append(out.Calls, doctor.DriverCall(c))
			}
		}
	}
	s.ports(ctx, n, &out)
	return out
}

// ports asks the kubelet's ports as nobody.
func (s *Gatherer) ports(ctx context.Context, n *v1.Node, out *doctor.Node) {
	ip := ""
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP && ip == "" {
			ip = a.Address
		}
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if ip == "" || port == 0 {
		return
	}
	readOnly := 10255
	switch {
	case out.Config != nil:
		readOnly = int(out.Config.ReadOnlyPort)
	case out.Local:
		readOnly = 0 // it did not say, and another kubelet of this machine may have the usual port
	}
	// Whose certificate it is does not matter: nothing is told to it, and only the code of its
	// answer is looked at.
	nobody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}} //nolint:gosec // see above
	ask := func(scheme string, port int) doctor.Answer {
		a := doctor.Answer{Address: net.JoinHostPort(ip, strconv.Itoa(port))}
		got, err := httpGet(ctx, nobody, scheme+"://"+a.Address+"/pods")
		a.Code, a.Err = got.code, err
		return a
	}
	out.Address = net.JoinHostPort(ip, strconv.Itoa(port))
	out.Anonymous = ask("https", port)
	if readOnly > 0 {
		out.ReadOnly = ask("http", readOnly)
	}
}

// gauge is a metric without labels out of Prometheus text; 0 when it is not there.
func gauge(text []byte, name string) int64 {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if v, err := strconv.ParseFloat(rest, 64); err == nil {
				return int64(v)
			}
		}
	}
	return 0
}

// bySignal are the values of a metric that has the label eviction_signal alone.
func bySignal(text []byte, name string) map[string]int64 {
	out := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name+`{eviction_signal="`)
		if !ok {
			continue
		}
		signal, value, _ := strings.Cut(rest, `"} `)
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[signal] = int64(v)
		}
	}
	return out
}

// Grants are the rights on kubelets that everybody has; nil when RBAC may not be read.
func (s *Gatherer) Grants(ctx context.Context, client kubernetes.Interface) []doctor.AccessGrant {
	roles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return append([]doctor.AccessGrant{}, doctor.Grants(roles.Items, bindings.Items)...)
}

// RouteConflicts is which Nodes cannot agree on how to reach each other's Pods; none where they
// cannot be read.
func RouteConflicts(ctx context.Context, client kubernetes.Interface) []string {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // the check of the API says why
	}
	says := map[string]string{}
	for i := range list.Items {
		if n := &list.Items[i]; len(n.Spec.PodCIDRs) > 0 {
			says[n.Name] = n.Annotations[routes.ReachabilityAnnotation]
		}
	}
	return routes.Disagreements(says)
}
