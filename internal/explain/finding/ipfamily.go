package finding

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// familyOf is the IP family of an address; empty where it is none.
func familyOf(address string) corev1.IPFamily {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case ip.Unmap().Is4():
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// otherFamily finds a Service whose IP families none of its ready Pods has an address of: such Pods
// are no endpoints of it, whoever writes its EndpointSlices.
func otherFamily(s *corev1.Service, self Object, ready []*corev1.Pod) (Finding, bool) {
	var want, have, names []string
	for _, f := range s.Spec.IPFamilies {
		want = append(want, string(f))
	}
	for _, p := range ready {
		names = append(names, p.Name)
		addresses := []string{p.Status.PodIP}
		for _, ip := range p.Status.PodIPs {
			addresses = append(addresses, ip.IP)
		}
		for _, a := range addresses {
			f := string(familyOf(a))
			if slices.Contains(want, f) {
				return Finding{}, false
			}
			if f != "" && !slices.Contains(have, f) {
				have = append(have, f)
			}
		}
	}
	if len(want) == 0 || len(have) == 0 {
		return Finding{}, false
	}
	return Finding{Code: "OtherIPFamily", Stage: StageTraffic, Object: self, Field: "spec.ipFamilies",
		Value: strings.Join(want, ","), Want: strings.Join(have, ","),
		Numbers: map[string]string{"readyPods": fmt.Sprint(len(ready)), "readyEndpoints": "0"},
		Message: fmt.Sprintf("Service %s has no ready endpoints although %d of its Pods are ready (%s): it is for %s "+
			"only (spec.ipFamilies), and they have addresses of %s only.", self.Name, len(ready), joined(names),
			strings.Join(want, " and "), strings.Join(have, " and ")),
		Remedies: []Remedy{{Say: "let the Service have both families, where the cluster has both", Run: []string{
			kubectl(self, "patch", `--type=merge -p '{"spec":{"ipFamilyPolicy":"PreferDualStack"}}'`)}},
			{Say: "or make the Service anew with ipFamilies " + strings.Join(have, ",") + ": the first family of a " +
				"Service cannot be changed"}}}, true
}
