package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	config "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"
)

// maxResponseSize bounds an extender's answer, so that a broken one cannot fill the memory.
const maxResponseSize = 64 << 20

// Extender is one program.
type Extender struct {
	config.Extender
	client           *http.Client
	managedResources sets.Set[string]
}

var _ framework.Extender = (*Extender)(nil)

// New makes a client for an extender; the configuration is completed and checked.
func New(c config.Extender) (*Extender, error) {
	tls := rest.TLSClientConfig{}
	if t := c.TLSConfig; t != nil {
		tls = rest.TLSClientConfig{Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile,
			KeyFile: t.KeyFile, CAFile: t.CAFile, CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData}
	}
	if c.EnableHTTPS && len(tls.CAFile) == 0 && len(tls.CAData) == 0 && c.TLSConfig == nil {
		tls.Insecure = true // upstream's rule: HTTPS without a TLS configuration does not check the certificate
	}
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: tls})
	if err != nil {
		return nil, fmt.Errorf("extender %s: %w", c.URLPrefix, err)
	}
	x := &Extender{Extender: c, client: &http.Client{Transport: transport, Timeout: c.HTTPTimeout.Duration},
		managedResources: sets.Set[string]{}}
	for _, r := range c.ManagedResources {
		x.managedResources.Insert(r.Name)
	}
	return x, nil
}

// Name is the URL prefix.
func (x *Extender) Name() string { return x.URLPrefix }

// IsIgnorable tells whether scheduling goes on when the extender does not answer.
func (x *Extender) IsIgnorable() bool { return x.Ignorable }

// IsBinder tells whether it binds.
func (x *Extender) IsBinder() bool { return x.BindVerb != "" }

// IsFilter tells whether it filters.
func (x *Extender) IsFilter() bool { return x.FilterVerb != "" }

// IsPrioritizer tells whether it scores.
func (x *Extender) IsPrioritizer() bool { return x.PrioritizeVerb != "" }

// SupportsPreemption tells whether it reviews preemptions.
func (x *Extender) SupportsPreemption() bool { return x.PreemptVerb != "" }

// IsInterested tells whether the Pod requests something the extender manages; one that manages
// nothing is asked about all.
func (x *Extender) IsInterested(p *v1.Pod) bool {
	if x.managedResources.Len() == 0 {
		return true
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range list {
			for _, resources := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
				for name := range resources {
					if x.managedResources.Has(string(name)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// Filter asks which nodes are left, and why the others are not.
func (x *Extender) Filter(p *v1.Pod,
	nodes []framework.NodeInfo) ([]framework.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	if !x.IsFilter() {
		return nodes, extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}, nil
	}
	known := make(map[string]framework.NodeInfo, len(nodes))
	for _, n := range nodes {
		known[n.Node().Name] = n
	}
	var answer extenderv1.ExtenderFilterResult
	if err := x.send(x.FilterVerb, x.args(p, nodes), &answer); err != nil {
		return nil, nil, nil, err
	}
	if answer.Error != "" {
		return nil, nil, nil, errors.New(answer.Error)
	}
	var names []string
	switch {
	case x.NodeCacheCapable && answer.NodeNames != nil:
		names = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			names = append(names, answer.Nodes.Items[i].Name)
		}
	}
	kept := make([]framework.NodeInfo, 0, len(names))
	for _, name := range names {
		n := known[name]
		if n == nil {
			return nil, nil, nil,
				fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list",
					x.URLPrefix, name)
		}
		kept = append(kept, n)
	}
	return kept, answer.FailedNodes, answer.FailedAndUnresolvableNodes, nil
}

// Prioritize asks for scores of 0 to 10 and gives them with the extender's weight.
func (x *Extender) Prioritize(p *v1.Pod, nodes []framework.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	var answer extenderv1.HostPriorityList
	if !x.IsPrioritizer() {
		for _, n := range nodes {
			answer = append(answer, extenderv1.HostPriority{Host: n.Node().Name})
		}
		return &answer, 0, nil
	}
	if err := x.send(x.PrioritizeVerb, x.args(p, nodes), &answer); err != nil {
		return nil, 0, err
	}
	return &answer, x.Weight, nil
}

// Bind asks the extender to bind, and waits for its answer. The error is that of the call, or what
// the extender says; an extender without bindVerb always fails.
func (x *Extender) Bind(b *v1.Binding) error {
	if !x.IsBinder() {
		return errors.New("unexpected empty bindVerb in extender")
	}
	var answer extenderv1.ExtenderBindingResult
	if err := x.send(x.BindVerb, &extenderv1.ExtenderBindingArgs{PodName: b.Name, PodNamespace: b.Namespace,
		PodUID: b.UID, Node: b.Target.Name}, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

func (x *Extender) args(p *v1.Pod, nodes []framework.NodeInfo) *extenderv1.ExtenderArgs {
	a := &extenderv1.ExtenderArgs{Pod: p}
	if x.NodeCacheCapable {
		names := make([]string, 0, len(nodes))
		for _, n := range nodes {
			names = append(names, n.Node().Name)
		}
		a.NodeNames = &names
		return a
	}
	a.Nodes = &v1.NodeList{}
	for _, n := range nodes {
		a.Nodes.Items = append(a.Nodes.Items, *n.Node())
	}
	return a
}

// send posts args to a verb and reads the answer.
func (x *Extender) send(verb string, args, answer any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("extender %s: %w", x.URLPrefix, err)
	}
	url := strings.TrimRight(x.URLPrefix, "/") + "/" + verb
	ctx, cancel := context.WithTimeout(context.Background(), max(x.HTTPTimeout.Duration, time.Millisecond))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("extender %s: %w", x.URLPrefix, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := x.client.Do(req)
	if err != nil {
		return fmt.Errorf("extender %s: %w", x.URLPrefix, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxResponseSize)).Decode(answer); err != nil {
		return fmt.Errorf("extender %s: answer to %s: %w", x.URLPrefix, verb, err)
	}
	return nil
}
