package pods

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/journal"
)

// Connections is how Pods' subresources reach kubelets and tell what they refused.
type Connections struct {
	// Kubelet carries requests to kubelets: client certificate, trust in their serving
	// certificates, its own dialer. nil refuses log, exec, attach, portforward and proxy with a
	// clear error.
	Kubelet http.RoundTripper
	// KubeletInsecure is the same without checking the serving certificate, for
	// insecureSkipTLSVerifyBackend. nil refuses that option.
	KubeletInsecure http.RoundTripper
	// Pods carries proxy requests to Pods, Services and other ports of nodes; nil means one that
	// goes there directly and checks no certificate.
	Pods http.RoundTripper
	// LoopbackNodes lets nodes/proxy reach nodes whose address is a loopback address, as that of a
	// single machine may be. Without it only global unicast addresses are proxied to.
	LoopbackNodes bool
	// Addresses is the order in which a node's address types are tried; empty means upstream's
	// default: Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP.
	Addresses []v1.NodeAddressType
	// Port is the kubelet's port where the Node names none; 0 means 10250.
	Port int
	// Journal takes facts: evictions refused. nil drops them.
	Journal journal.Sink
}

// Kinds are the rows of this package.
func Kinds(c Connections) []resourcedef.Kind {
	return []resourcedef.Kind{{
		Version: "v1", Resource: "pods", Singular: "pod", Kind: "Pod",
		Names: resourcedef.Names{Short: []string{"po"}, Categories: []string{"all"}},
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &v1.Pod{} },
			NewList:    func() runtime.Object { return &v1.PodList{} },
			Namespaced: true, HasStatus: true,
			StatusResetFields: []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
		},
		Rules: rules(),
		Stored: resourcedef.Stored{Wrap: func(s storage.Interface) storage.Interface {
			return &deleteStorage{s}
		}},
		Table:        table(),
		Subresources: c.subresources,
	}}
}
