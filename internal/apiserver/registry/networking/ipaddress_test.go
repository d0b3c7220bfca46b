package networking

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceCIDRs(t *testing.T) {
	cidr := func(list ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: list}}
	}
	for name, c := range map[string]struct {
		now, was *networkingv1.ServiceCIDR
		want     string
	}{
		"one":           {cidr("10.0.0.0/16"), nil, ""},
		"both families": {cidr("10.0.0.0/16", "fd00::/112"), nil, ""},
		"none":          {cidr(), nil, "spec.cidrs: Required value: at least one CIDR required"},
		"three": {cidr("10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16"), nil,
			"may only hold up to 2 values"},
		"same family": {cidr("10.0.0.0/16", "10.1.0.0/16"), nil,
			"may specify no more than one IP for each IP family"},
		"no range":      {cidr("ten"), nil, "spec.cidrs[0]: Invalid value: \"ten\""},
		"host bits":     {cidr("10.0.0.1/16"), nil, "spec.cidrs[0]: Invalid value: \"10.0.0.1/16\""},
		"second family": {cidr("10.0.0.0/16", "fd00::/112"), cidr("10.0.0.0/16"), ""},
		"another range": {cidr("10.1.0.0/16"), cidr("10.0.0.0/16"),
			"spec.cidrs[0]: Invalid value: \"10.1.0.0/16\": field is immutable"},
		"one family less": {cidr("10.0.0.0/16"), cidr("10.0.0.0/16", "fd00::/112"), "field is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkServiceCIDR(c.now, c.was).ToAggregate(); err != nil {
				got = err.Error()
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestIPAddresses(t *testing.T) {
	rules := addresses().Rules
	for name, good := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "10.0.0.01": false, "FD00::1": false,
		"x": false} {
		if got := rules.ValidateName(name, false); (len(got) == 0) != good {
			t.Errorf("%s: got faults %v, want it valid: %t", name, got, good)
		}
	}
	a := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"}}
	if got, want := rules.Validate(t.Context(), a).ToAggregate().Error(),
		"spec.parentRef: Required value"; got != want {
		t.Errorf("rules.Validate(t.Context(), a) = %q, want %q", got, want)
	}
	a.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "s"}
	if errs := rules.Validate(t.Context(), a); len(errs) > 0 {
		t.Errorf("got %v, want no errs", errs)
	}
	b := a.DeepCopy()
	b.Spec.ParentRef.Name = "other"
	if errs := rules.ValidateUpdate(t.Context(), b, a); len(errs) != 1 || errs[0].Field != "spec.parentRef" {
		t.Errorf("got %v, want 1 in errs and Field spec.parentRef", errs)
	}
}
