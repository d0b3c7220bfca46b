package pods

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

const kubeletPort = 10250

// kubeletLocator finds the kubelet of a node.
type kubeletLocator struct {
	Connections
	lookup func(group, resource string) rest.StandardStorage
}

// addressOrder is the order in which address types are tried when none is configured.
func addressOrder() []v1.NodeAddressType {
	return []v1.NodeAddressType{v1.NodeHostName, v1.NodeInternalDNS, v1.NodeInternalIP, v1.NodeExternalDNS,
		v1.NodeExternalIP}
}

// location is where the kubelet of a node answers.
func (k *kubeletLocator) location(ctx context.Context, node string) (*url.URL, error) {
	if k.Kubelet == nil {
		return nil, errors.NewServiceUnavailable(
			"this API server was not told how to reach kubelets (kubelet client certificate)")
	}
	n, err := k.node(ctx, node)
	if err != nil {
		return nil, err
	}
	return Location(n, k.Addresses, k.Port)
}

func (k *kubeletLocator) node(ctx context.Context, name string) (*v1.Node, error) {
	store := k.lookup("", "nodes")
	if store == nil {
		return nil, errors.NewServiceUnavailable("nodes are not served here")
	}
	o, err := store.Get(request.WithNamespace(ctx, metav1.NamespaceNone), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	n, ok := o.(*v1.Node)
	if !ok {
		return nil, fmt.Errorf("unexpected object type %T in the store of nodes", o)
	}
	return n, nil
}

// Location is https://ADDRESS:PORT of a node's kubelet: the first address of the first type that
// the node has, the port the node reports or else port (10250 when 0).
func Location(n *v1.Node, types []v1.NodeAddressType, port int) (*url.URL, error) {
	if len(types) == 0 {
		types = addressOrder()
	}
	host := ""
	for _, t := range types {
		for _, a := range n.Status.Addresses {
			if a.Type == t && host == "" {
				host = a.Address
			}
		}
	}
	if host == "" {
		return nil, fmt.Errorf("no preferred addresses found; known addresses: %v", n.Status.Addresses)
	}
	if p := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port); p > 0 {
		port = p
	}
	if port == 0 {
		port = kubeletPort
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port))}, nil
}

// container is the container a request means: the named one, or the only one.
func container(p *v1.Pod, name string) (string, error) {
	var all []string
	visitContainerNames(&p.Spec, func(n string) { all = append(all, n) })
	if name != "" {
		for _, n := range all {
			if n == name {
				return name, nil
			}
		}
		return "", errors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, p.Name))
	}
	switch len(p.Spec.Containers) {
	case 1:
		return p.Spec.Containers[0].Name, nil
	case 0:
		return "", errors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", p.Name))
	}
	return "", errors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s",
		p.Name, all))
}

// visitContainerNames visits the names of init, app and ephemeral containers in that order.
func visitContainerNames(s *v1.PodSpec, f func(string)) {
	for i := range s.InitContainers {
		f(s.InitContainers[i].Name)
	}
	for i := range s.Containers {
		f(s.Containers[i].Name)
	}
	for i := range s.EphemeralContainers {
		f(s.EphemeralContainers[i].Name)
	}
}
