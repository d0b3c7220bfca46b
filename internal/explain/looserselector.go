package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/journal"
)

// comparison matches an attribute or capacity that a selector of devices compares with a literal:
// its name, plain or in brackets, and the literal.
var comparison = regexp.MustCompile(`(?:\.|\[["'])([A-Za-z_][\w-]*)(?:["']\])?` +
	`(?:\.orValue\([^()]*\))?\s*(?:\.\s*(?:compareTo|isGreaterThan|isLessThan)\(\s*(?:quantity|semver)\(\s*|` +
	`(?:==|>=|<=|>|<|in)\s*(?:quantity\(\s*)?)(\[[^\]]*\]|"[^"]*"|'[^']*'|-?\d+|true|false)`)

// deviceCompiler evaluates selectors of devices as the scheduler does.
var deviceCompiler = cel.NewCache(32, cel.Features{EnableConsumableCapacity: true})

// expressionMatches reports whether a device meets an expression.
func expressionMatches(expression, driver string, d *resourcev1.Device) bool {
	program := deviceCompiler.GetOrCompile(expression)
	if program.Error != nil {
		return false
	}
	yes, _, err := program.DeviceMatches(context.Background(), cel.Device{Driver: driver,
		AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
	return err == nil && yes
}

// selectorsMatch reports whether a device meets every selector.
func selectorsMatch(list []resourcev1.DeviceSelector, driver string, d *resourcev1.Device) bool {
	return !slices.ContainsFunc(list, func(s resourcev1.DeviceSelector) bool {
		return s.CEL != nil && !expressionMatches(s.CEL.Expression, driver, d)
	})
}

// looserSelector is an expression that devices of a node meet in the place of one that none meets.
type looserSelector struct {
	index      int    // of the request's selectors
	expression string // what would do
	device     string
	node       string
	distance   float64 // from what was asked, where both are numbers
}

// looserSelectors are remedies for requests whose own selectors no device of their class meets: the
// same selector with what the nearest free device has, evaluated for that device.
func looserSelectors(in In, refusals []journal.NodeRefusal) []Fix {
	var out []Fix
	seen := map[string]bool{}
	for _, r := range refusals {
		m := askedDevices.FindStringSubmatch(r.Detail + "\n" + strings.Join(r.Messages, "\n"))
		if r.Plugin != "DynamicResources" || m == nil || in.Objects == nil || seen[m[0]] {
			continue
		}
		seen[m[0]] = true
		at := finding.Object{Kind: "ResourceClaim", Namespace: m[1], Name: m[2]}
		c, ok := in.Objects.Get(at).(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		i := slices.IndexFunc(c.Spec.Devices.Requests, func(x resourcev1.DeviceRequest) bool { return x.Name == m[3] })
		if i < 0 || c.Spec.Devices.Requests[i].Exactly == nil {
			continue
		}
		offer, ok := nearestSelector(in, c.Spec.Devices.Requests[i].Exactly)
		if !ok {
			continue
		}
		field := fmt.Sprintf("/devices/requests/%d/exactly/selectors/%d/cel/expression", i, offer.index)
		out = append(out, commandFix(fmt.Sprintf("ask for what device %s of node %s has: %s; the content of a claim "+
			"cannot be changed, so it is made anew", offer.device, offer.node, offer.expression),
			anewWith(in, at, "/spec"+field, offer.expression)...))
	}
	return out
}

// nearestSelector is the offer that is nearest to what a request asks.
func nearestSelector(in In, asked *resourcev1.ExactDeviceRequest) (looserSelector, bool) {
	var class []resourcev1.DeviceSelector
	if x, ok := in.Objects.Get(finding.Object{Kind: "DeviceClass",
		Name: asked.DeviceClassName}).(*resourcev1.DeviceClass); ok {
		class = x.Spec.Selectors
	}
	taken := takenDevices(in)
	var all []looserSelector
	for _, o := range in.Objects.Objects["ResourceSlice"] {
		s, ok := o.(*resourcev1.ResourceSlice)
		if !ok || s.Spec.NodeName == nil {
			continue
		}
		for j := range s.Spec.Devices {
			d := &s.Spec.Devices[j]
			if taken[s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+d.Name] || !selectorsMatch(class, s.Spec.Driver, d) {
				continue
			}
			for _, x := range selectorsFor(asked, s.Spec.Driver, d) {
				if served(s, class, changed(asked.Selectors, x)) >= int(max(asked.Count, 1)) {
					x.node = *s.Spec.NodeName
					all = append(all, x)
				}
			}
		}
	}
	if len(all) == 0 {
		return looserSelector{}, false
	}
	return slices.MinFunc(all, func(a, b looserSelector) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.expression, b.expression),
			cmp.Compare(a.node, b.node))
	}), true
}

// takenDevices are the devices that claims have.
func takenDevices(in In) map[string]bool {
	out := map[string]bool{}
	for _, o := range in.Objects.Objects["ResourceClaim"] {
		c, ok := o.(*resourcev1.ResourceClaim)
		if !ok || c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			out[r.Driver+"/"+r.Pool+"/"+r.Device] = true
		}
	}
	return out
}

// served is how many devices of a slice meet the selectors.
func served(s *resourcev1.ResourceSlice, class, own []resourcev1.DeviceSelector) int {
	n := 0
	for j := range s.Spec.Devices {
		d := &s.Spec.Devices[j]
		if selectorsMatch(class, s.Spec.Driver, d) && selectorsMatch(own, s.Spec.Driver, d) {
			n++
		}
	}
	return n
}

// changed are selectors with an offer's expression in its place.
func changed(list []resourcev1.DeviceSelector, x looserSelector) []resourcev1.DeviceSelector {
	out := slices.Clone(list)
	out[x.index] = resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: x.expression}}
	return out
}

// selectorsFor are the selectors of a request with one literal replaced by what a device has, as
// far as
// the device meets them all then.
func selectorsFor(asked *resourcev1.ExactDeviceRequest, driver string, d *resourcev1.Device) []looserSelector {
	var out []looserSelector
	for i, s := range asked.Selectors {
		if s.CEL == nil || expressionMatches(s.CEL.Expression, driver, d) {
			continue
		}
		e := s.CEL.Expression
		for _, m := range comparison.FindAllStringSubmatchIndex(e, -1) {
			has, ok := contentOf(d, e[m[2]:m[3]])
			if !ok {
				continue
			}
			literal := e[m[4]:m[5]]
			x := looserSelector{index: i, expression: e[:m[4]] + likeLiteral(literal, has) + e[m[5]:], device: d.Name,
				distance: distanceOf(strings.Trim(literal, `"'`), has)}
			if selectorsMatch(changed(asked.Selectors, x), driver, d) {
				out = append(out, x)
			}
		}
	}
	return out
}

// contentOf is the attribute or capacity of a device with a name, whatever its domain.
func contentOf(d *resourcev1.Device, name string) (string, bool) {
	is := func(n resourcev1.QualifiedName) bool {
		return string(n)[strings.LastIndex(string(n), "/")+1:] == name
	}
	for n, x := range d.Attributes {
		if is(n) {
			return attributeText(x), true
		}
	}
	for n, x := range d.Capacity {
		if is(n) {
			return x.Value.String(), true
		}
	}
	return "", false
}

// likeLiteral writes a value as a literal is written: in its quotes, in a list, or plain.
func likeLiteral(literal, value string) string {
	switch literal[0] {
	case '"', '\'':
		return literal[:1] + value + literal[:1]
	case '[':
		if strings.ContainsAny(literal, `"'`) {
			return "[" + strconv.Quote(value) + "]"
		}
		return "[" + value + "]"
	}
	return value
}

// distanceOf is how far two quantities are from each other; 0 where they are none.
func distanceOf(a, b string) float64 {
	x, err := resource.ParseQuantity(a)
	y, other := resource.ParseQuantity(b)
	if err != nil || other != nil {
		return 0
	}
	return max(x.AsApproximateFloat64()-y.AsApproximateFloat64(), y.AsApproximateFloat64()-x.AsApproximateFloat64())
}

// anewWith are the commands that make a claim anew with another content at a path; of one that was
// made from a template the template too.
func anewWith(in In, claim finding.Object, path, value string) []string {
	replace := func(resource, name, path string) string {
		patch, _ := json.Marshal([]op{{Op: "replace", Path: path, Value: value}}) // strings
		return fmt.Sprintf("kubectl -n %s get %s %s -o json | kubectl patch --local -f - --type=json -p %s -o json | "+
			"kubectl replace --force -f -", claim.Namespace, resource, name, shellquote.Quoted(string(patch)))
	}
	for _, s := range in.Pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName == nil || *s.ResourceClaimName != claim.Name {
			continue
		}
		for _, x := range in.Pod.Spec.ResourceClaims {
			if x.Name == s.Name && x.ResourceClaimTemplateName != nil {
				return []string{replace("resourceclaimtemplate", *x.ResourceClaimTemplateName, "/spec"+path),
					fmt.Sprintf("kubectl -n %s delete resourceclaim %s", claim.Namespace, claim.Name)}
			}
		}
	}
	return []string{replace("resourceclaim", claim.Name, path)}
}
