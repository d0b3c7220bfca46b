package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

func table() kind.Table {
	spec := v1.ServiceSpec{}.SwaggerDoc()
	return kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Type", spec["type"]), column.Def("Cluster-IP", spec["clusterIP"]), column.Def("External-IP", spec["externalIPs"]),
			column.Def("Port(s)", spec["ports"]), column.Age(),
		}, column.Wide(column.Def("Selector", spec["selector"]))...),
		Row: func(o runtime.Object, opt kind.RowOptions) []any { return Row(o.(*v1.Service), opt.Now) },
	}
}

// Row is a Service's line in `kubectl get services -o wide`.
func Row(s *v1.Service, now metav1.Time) []any {
	ip := "<none>"
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	return []any{s.Name, string(s.Spec.Type), ip, externalCell(s), portsCell(s.Spec.Ports), column.Since(s.CreationTimestamp, now), column.Labels(s.Spec.Selector)}
}

func portsCell(ports []v1.ServicePort) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			out[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return column.OrNone(strings.Join(out, ","))
}

func externalCell(s *v1.Service) string {
	switch s.Spec.Type {
	case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort:
		return column.OrNone(strings.Join(s.Spec.ExternalIPs, ","))
	case v1.ServiceTypeLoadBalancer:
		set := map[string]bool{}
		for _, in := range s.Status.LoadBalancer.Ingress {
			switch {
			case in.IP != "":
				set[in.IP] = true
			case in.Hostname != "":
				set[in.Hostname] = true
			}
		}
		all := append(slices.Sorted(maps.Keys(set)), s.Spec.ExternalIPs...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case v1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}
