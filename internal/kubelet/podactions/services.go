package podactions

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// serviceEnv are the variables that tell of Services: those of the Pod's namespace unless
// enableServiceLinks is false, and the kubernetes Service always.
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
func (c *operation) serviceEnv() (map[string]string, error) {
	list, err := c.executor.d.Cluster.Services(c.pod.Namespace)
	if err != nil && !pod.IsStatic(c.pod) { // a static Pod does not wait for an API server, as upstream's does not
		return nil, err
	}
	out := map[string]string{}
	links := c.pod.Spec.EnableServiceLinks == nil || *c.pod.Spec.EnableServiceLinks
	named := map[string]*v1.Service{} // a Service of the Pod's own namespace wins over the API server's of that name
	for _, s := range list {
		if ip := s.Spec.ClusterIP; ip == "" || ip == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		own := links && s.Namespace == c.pod.Namespace
		api := s.Namespace == v1.NamespaceDefault && s.Name == "kubernetes"
		if own || api && named[s.Name] == nil {
			named[s.Name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		addServiceVariables(out, named[name])
	}
	return out, nil
}

// addServiceVariables adds the variables of one Service: the short ones, and those of Docker's
// links.
func addServiceVariables(out map[string]string, s *v1.Service) {
	prefix := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
	out[prefix+"_SERVICE_HOST"] = s.Spec.ClusterIP
	out[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i, p := range s.Spec.Ports {
		port := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			out[prefix+"_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))] = port
		}
		protocol := string(v1.ProtocolTCP)
		if p.Protocol != "" {
			protocol = string(p.Protocol)
		}
		url := fmt.Sprintf("%s://%s", strings.ToLower(protocol), net.JoinHostPort(s.Spec.ClusterIP, port))
		if i == 0 {
			out[prefix+"_PORT"] = url
		}
		link := fmt.Sprintf("%s_PORT_%d_%s", prefix, p.Port, protocol)
		out[link], out[link+"_PROTO"], out[link+"_PORT"], out[link+"_ADDR"] = url, strings.ToLower(protocol), port,
			s.Spec.ClusterIP
	}
}
