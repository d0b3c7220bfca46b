package finding

import (
	"fmt"
	"strings"
	"testing"
)

// A Service whose IP families its ready Pods have no address of has no endpoints for that reason:
// no controller is blamed. With an address of one of the families it is the slices that are
// missing.
func TestAServiceOfAnotherIPFamily(t *testing.T) {
	const v4, v6 = "10.0.0.5", "fd00::5"
	for name, row := range map[string]struct {
		families, ips []string
		want          string
	}{
		"the other family": {[]string{"IPv6"}, []string{v4}, "OtherIPFamily spec.ipFamilies IPv6 IPv4"},
		"the other way":    {[]string{"IPv4"}, []string{v6}, "OtherIPFamily spec.ipFamilies IPv4 IPv6"},
		"both":             {[]string{"IPv6"}, []string{v4, v6}, "EndpointsBehind spec.selector app=web "},
		"one of two":       {[]string{"IPv6", "IPv4"}, []string{v4}, "EndpointsBehind spec.selector app=web "},
		"not said":         {nil, []string{v4}, "EndpointsBehind spec.selector app=web "},
	} {
		var ips []string
		for _, ip := range row.ips {
			ips = append(ips, fmt.Sprintf("{ip: %q}", ip))
		}
		c := clusterOf(t, fmt.Sprintf(`read: EndpointSlice
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ipFamilies: [%s], selector: {app: web},
  ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}}, spec: {containers:
  [{name: a}]},
  status: {podIP: %q, podIPs: [%s], phase: Running, conditions: [{type: Ready, status: "True",
  lastTransitionTime: "2026-05-01T11:00:00Z"}]}}`, strings.Join(row.families, ", "), row.ips[0],
			strings.Join(ips, ", ")))
		got := ""
		for _, f := range Of(c, Object{"Service", "shop", "web"}) {
			if f.Severity == Broken {
				got += fmt.Sprintf("%s %s %s %s", f.Code, f.Field, f.Value, f.Want)
			}
			if f.Code == "OtherIPFamily" && strings.Contains(f.Message, "no controller") {
				t.Errorf("%s: got %q, want no controller blamed", name, f.Message)
			}
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}
