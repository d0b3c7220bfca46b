package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How the scheduler tells that a selector of devices could not be evaluated, and what it read.
var (
	selectorWords = regexp.MustCompile(
		`claim ([^\s/]+)/(\S+): selector #(\d+) on device (\S+): (CEL runtime error: .*|.*)`)
	keyWords = regexp.MustCompile(`no such (?:key|attribute|capacity): ([A-Za-z0-9_.-]*[A-Za-z0-9_])`)
)

// deviceSelectors finds a selector of devices, of a Pod's claim or its class, that could not be
// evaluated for a device: the Pod is then refused everywhere, also where other devices fit.
func deviceSelectors(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" {
		return nil
	}
	words := ""
	for _, x := range p.Status.Conditions {
		if x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse {
			words = x.Message
		}
	}
	m := selectorWords.FindStringSubmatch(words)
	if m == nil {
		return nil
	}
	claim, ok := get[*resourcev1.ResourceClaim](c, "ResourceClaim", m[1], m[2])
	if !ok {
		return nil
	}
	i, err := strconv.Atoi(m[3])
	if err != nil {
		return nil
	}
	key := ""
	if k := keyWords.FindStringSubmatch(m[5]); k != nil {
		key = k[1]
	}
	at, field, text := c.selectorOf(claim, i, key)
	if text == "" {
		return nil
	}
	at, field = claimMade(p, claim, at, field)
	why, _, _ := strings.Cut(strings.TrimPrefix(m[5], "CEL runtime error: "), ". ")
	f := Finding{Code: "SelectorUnread", Stage: StagePlacement, Object: at, Field: field, Value: text,
		Related: []Object{self}, Numbers: map[string]string{"device": m[4], "error": why, "selector": m[3]},
		Message: fmt.Sprintf("%s of %s %s cannot be evaluated for device %s (%s), and so Pod %s is refused on every "+
			"node: %s.", field, at.Kind, at.Name, m[4], why, self.Name, text)}
	if key != "" {
		f.Numbers["key"] = key
		c.attributesInstead(&f, m[4], key)
	}
	f.Remedies = append(f.Remedies, Remedy{Say: "let the expression ask first whether the device has it, with has(...) " +
		"or .?NAME.orValue(...), and make the claim anew: its content cannot be changed",
		Run: []string{kubectl(at, "get", "-o yaml")}})
	return []Finding{f}
}

// selectorOf is the selector of an index that read a key: of a request of a claim, or of its class.
func (c *Cluster) selectorOf(claim *resourcev1.ResourceClaim, i int, key string) (at Object, field, text string) {
	reads := func(list []resourcev1.DeviceSelector) bool {
		return i < len(list) && list[i].CEL != nil && strings.Contains(list[i].CEL.Expression, key)
	}
	for j, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		if reads(r.Exactly.Selectors) {
			return objectOf("ResourceClaim", claim), fmt.Sprintf(
				"spec.devices.requests[%d].exactly.selectors[%d].cel.expression", j, i), r.Exactly.Selectors[i].CEL.Expression
		}
		x, ok := get[*resourcev1.DeviceClass](c, "DeviceClass", "", r.Exactly.DeviceClassName)
		if ok && reads(x.Spec.Selectors) {
			return objectOf("DeviceClass", x), fmt.Sprintf("spec.selectors[%d].cel.expression", i),
				x.Spec.Selectors[i].CEL.Expression
		}
	}
	return Object{}, "", ""
}

// claimMade is the template that a Pod's claim was made from, with the field in it, or what it is
// given.
func claimMade(p *corev1.Pod, claim *resourcev1.ResourceClaim, at Object, field string) (Object, string) {
	for _, s := range p.Status.ResourceClaimStatuses {
		if at.Kind != "ResourceClaim" || s.ResourceClaimName == nil || *s.ResourceClaimName != claim.Name {
			continue
		}
		for _, x := range p.Spec.ResourceClaims {
			if x.Name == s.Name && x.ResourceClaimTemplateName != nil {
				return Object{"ResourceClaimTemplate", p.Namespace, *x.ResourceClaimTemplateName}, "spec." + field
			}
		}
	}
	return at, field
}

// attributesInstead names the attributes that a device has, and the one that was probably meant.
func (c *Cluster) attributesInstead(f *Finding, device, key string) {
	for _, s := range list[*resourcev1.ResourceSlice](c, "ResourceSlice") {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+d.Name != device {
				continue
			}
			var have []string
			for n := range maps.Keys(d.Attributes) {
				have = append(have, string(n))
			}
			slices.Sort(have)
			f.Message += fmt.Sprintf(" The device has %s.", orNone(have, "no attributes"))
			if near, how := Near(key, have); near != "" {
				f.Want = near
				f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
			}
		}
	}
}
