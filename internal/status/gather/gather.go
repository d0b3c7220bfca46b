package gather

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/status"
)

// timeout bounds one answer.
const timeout = 3 * time.Second

// Asked is whom to ask.
type Asked struct {
	Config *rest.Config
	Client kubernetes.Interface
	// Scheduler is the address of the scheduler's port on this machine; empty: it is not asked.
	Scheduler string
}

// Read reads all facts. An API server that does not answer is a fact, too.
func Read(ctx context.Context, a Asked) status.Facts {
	f := status.Facts{Server: a.Config.Host}
	version, err := a.Client.Discovery().ServerVersion()
	f.Now = time.Now()
	if err != nil {
		f.Err = err
		return f
	}
	f.Version = version.GitVersion
	var wg sync.WaitGroup
	wg.Go(func() { f.Checks = readChecks(ctx, a.Client) })
	wg.Go(func() { f.Metrics = readMetrics(ctx, a.Client.Discovery().RESTClient().Get().AbsPath("/metrics")) })
	wg.Go(func() {
		list, err := a.Client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
		if f.Leases.Err = err; err == nil {
			f.Leases.Items = list.Items
		}
	})
	wg.Go(func() {
		list, err := a.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if f.Pods.Err = err; err == nil {
			f.Pods.Items = list.Items
		}
	})
	wg.Go(func() { f.Workloads = readWorkloads(ctx, a.Client) })
	wg.Go(func() { f.Nodes = readNodes(ctx, a.Client) })
	wg.Go(func() { readDNS(ctx, a.Client, &f) })
	if a.Scheduler != "" {
		wg.Go(func() { f.SchedulerHealth = ask(ctx, "https://"+a.Scheduler+"/healthz") })
	}
	wg.Wait()
	f.Now = time.Now()
	return f
}

// readChecks reads /readyz; nil when it cannot be read.
func readChecks(ctx context.Context, client kubernetes.Interface) map[string]bool {
	raw, err := client.Discovery().
		RESTClient().
		Get().
		AbsPath("/readyz").
		Param("verbose", "").
		Timeout(timeout).
		DoRaw(ctx)
	if err != nil && len(raw) == 0 {
		return nil
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		for mark, ok := range map[string]bool{"[+]": true, "[-]": false} {
			if rest, found := strings.CutPrefix(line, mark); found {
				out[strings.Fields(rest)[0]] = ok
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// readMetrics sums each metric over its labels; nil when they cannot be read.
func readMetrics(ctx context.Context, from *rest.Request) map[string]float64 {
	raw, err := from.Timeout(timeout).DoRaw(ctx)
	if err != nil {
		return nil
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	out := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			if name == "kubelet_running_containers" && m.GetLabel()[0].GetValue() != "running" {
				continue
			}
			out[name] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func readWorkloads(ctx context.Context, client kubernetes.Interface) status.Read[status.Observed] {
	var out status.Read[status.Observed]
	list, err := client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		out.Err = err
		return out
	}
	for i := range list.Items {
		d := &list.Items[i]
		out.Items = append(out.Items, status.Observed{Name: "deployment " + d.Namespace + "/" + d.Name,
			Generation: d.Generation, Observed: d.Status.ObservedGeneration, Changed: changed(d)})
	}
	return out
}

// changed is the last write that managedFields tell of, but for those of status.
func changed(d *appsv1.Deployment) time.Time {
	at := d.CreationTimestamp.Time
	for _, m := range d.ManagedFields {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// maxAsked bounds the nodes whose ports are asked.
const maxAsked = 64

func readNodes(ctx context.Context, client kubernetes.Interface) status.Read[status.Node] {
	var out status.Read[status.Node]
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		out.Err = err
		return out
	}
	out.Items = make([]status.Node, len(list.Items))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range list.Items {
		n := &out.Items[i]
		n.Node = list.Items[i]
		if i >= maxAsked {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			n.Metrics = readMetrics(ctx, client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.Node.Name).
				SubResource("proxy").Suffix("metrics"))
			for _, a := range n.Node.Status.Addresses {
				if a.Type == corev1.NodeInternalIP && n.Proxy == nil {
					n.Proxy = reached(ask(ctx, "http://"+net.JoinHostPort(a.Address, "10256")+"/healthz"))
				}
			}
		})
	}
	wg.Wait()
	return out
}

// reached is an answer, nil when nobody answered: from here a port may not be reached, which says
// nothing of who listens there.
func reached(a *status.Answer) *status.Answer {
	if !a.OK && !strings.HasPrefix(a.Text, "HTTP ") {
		return nil
	}
	return a
}

// ask asks a health port as nobody. Whose certificate it shows does not matter: nothing is told to
// it, and only its answer's code is looked at.
func ask(ctx context.Context, url string) *status.Answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above
	_, address, _ := strings.Cut(url, "://")
	address, _, _ = strings.Cut(address, "/")
	out := &status.Answer{Address: address}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		out.Text = err.Error()
		return out
	}
	res, err := client.Do(req)
	if err != nil {
		out.Text = err.Error()
		return out
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	out.OK, out.Text = res.StatusCode == http.StatusOK, fmt.Sprintf("HTTP %d", res.StatusCode)
	return out
}

// readDNS asks the cluster's name server for the API server's name, and counts its endpoints.
func readDNS(ctx context.Context, client kubernetes.Interface, f *status.Facts) {
	service, err := client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil {
		return
	}
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kube-dns"})
	if err == nil {
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					f.DNSEndpoints++
				}
			}
		}
	}
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return
	}
	at := net.JoinHostPort(service.Spec.ClusterIP, "53")
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	const name = "kubernetes.default.svc.cluster.local."
	found, err := resolver.LookupHost(ctx, name)
	f.DNS = &status.Answer{Address: at, OK: err == nil, Text: name + " is " + strings.Join(found, ", ")}
	if err != nil {
		f.DNS.Text = err.Error()
	}
}
