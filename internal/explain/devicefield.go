package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// How the scheduler's plugin tells what a node has of a request for devices.
var (
	askedDevices = regexp.MustCompile(
		`claim ([^\s,/]+)/([^\s,]+), request ([^\s,]+) asks for (\d+) of device class (\S+):`)
	someMatch   = regexp.MustCompile(`(\d+) of (\d+) devices of this node match, (\d+) taken`)
	deviceTaint = regexp.MustCompile(`(\d+) with a taint that the request does not tolerate: ` +
		`([^\s;=]+)=([^\s;:]*):(\w+)`)
	noneMatches = regexp.MustCompile(`none of the (\d+) devices of this node matches`)
)

// deviceRequest is the request of a claim that a node cannot serve: its count, where devices match
// and are too few, or the selector of it or its class, where none matches. otherwise is what is
// known without the claim.
func deviceRequest(in In, r journal.NodeRefusal, otherwise refusalField) refusalField {
	text := r.Detail + "\n" + strings.Join(r.Messages, "\n")
	m := askedDevices.FindStringSubmatch(text)
	if m == nil || in.Objects == nil {
		return otherwise
	}
	at := finding.Object{Kind: "ResourceClaim", Namespace: m[1], Name: m[2]}
	c, ok := in.Objects.Get(at).(*resourcev1.ResourceClaim)
	if !ok {
		return otherwise
	}
	parent, _, below := strings.Cut(m[3], "/")
	i := slices.IndexFunc(c.Spec.Devices.Requests, func(x resourcev1.DeviceRequest) bool { return x.Name == parent })
	if i < 0 || below || c.Spec.Devices.Requests[i].Exactly == nil {
		return otherwise
	}
	out := refusalField{object: at, field: fmt.Sprintf("spec.devices.requests[%d].exactly", i), value: m[5],
		related: otherwise.related, numbers: map[string]string{"asked": m[4]}}
	exactly := c.Spec.Devices.Requests[i].Exactly
	if t := deviceTaint.FindStringSubmatch(text); t != nil {
		out.field, out.value = out.field+".tolerations", fmt.Sprintf("%s=%s:%s", t[2], t[3], t[4])
		out.numbers["tainted"], out.numbers["tolerations"] = t[1], strconv.Itoa(len(exactly.Tolerations))
		out.want = out.value
		return out
	}
	if some := someMatch.FindStringSubmatch(text); some != nil {
		match, _ := strconv.Atoi(some[1]) // digits
		taken, _ := strconv.Atoi(some[3])
		out.numbers["match"], out.numbers["devices"], out.numbers["taken"] = some[1], some[2], some[3]
		asked, _ := strconv.Atoi(m[4])
		free := match - taken
		if exactly.AllocationMode == resourcev1.DeviceAllocationModeAll {
			out.field, out.value = out.field+".allocationMode", string(resourcev1.DeviceAllocationModeAll)
			return out
		}
		if free >= asked {
			if j, ok := constrained(in, c, r.Node, out); ok {
				return j
			}
		}
		out.field, out.value = out.field+".count", m[4]
		if free > 0 {
			out.want = strconv.Itoa(free)
		}
		return out
	}
	none := noneMatches.FindStringSubmatch(text)
	if none == nil {
		out.field += ".deviceClassName"
		return out
	}
	out.numbers["devices"] = none[1]
	return selectorField(in, exactly, r.Node, out)
}

// selectorField is the expression that devices are chosen by: the request's own, or its class's.
func selectorField(in In, exactly *resourcev1.ExactDeviceRequest, node string, out refusalField) refusalField {
	class := exactly.DeviceClassName
	if s := exactly.Selectors; len(s) > 0 && s[0].CEL != nil {
		out.field, out.value = out.field+".selectors[0].cel.expression", s[0].CEL.Expression
		maps.Copy(out.numbers, whatDevicesHave(in, node, out.value))
		return out
	}
	at := finding.Object{Kind: "DeviceClass", Name: class}
	x, ok := in.Objects.Get(at).(*resourcev1.DeviceClass)
	if ok && len(x.Spec.Selectors) > 0 && x.Spec.Selectors[0].CEL != nil {
		out.related = append(out.related, out.object)
		out.object, out.field, out.value = at, "spec.selectors[0].cel.expression", x.Spec.Selectors[0].CEL.Expression
		maps.Copy(out.numbers, whatDevicesHave(in, node, out.value))
		return out
	}
	out.field += ".deviceClassName"
	return out
}

// constrained is the constraint of a claim that keeps devices apart of which there are enough: the
// attribute in which they have to be alike, with what the node's devices have in it.
func constrained(in In, c *resourcev1.ResourceClaim, node string, out refusalField) (refusalField, bool) {
	for i, x := range c.Spec.Devices.Constraints {
		field, attribute := "matchAttribute", x.MatchAttribute
		if attribute == nil {
			field, attribute = "distinctAttribute", x.DistinctAttribute
		}
		if attribute == nil {
			continue
		}
		out.field, out.value = fmt.Sprintf("spec.devices.constraints[%d].%s", i, field), string(*attribute)
		_, name, _ := strings.Cut(string(*attribute), "/")
		maps.Copy(out.numbers, whatDevicesHave(in, node, name))
		return out, true
	}
	return out, false
}

// mostDevices bounds the devices whose content is told.
const mostDevices = 4

// whatDevicesHave are the attributes and capacities that an expression names, of a node's devices:
// DEVICE.NAME and the value.
func whatDevicesHave(in In, node, expression string) map[string]string {
	out := map[string]string{}
	words := strings.FieldsFunc(expression, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	named := func(name resourcev1.QualifiedName) bool {
		return slices.Contains(words, string(name)[strings.LastIndex(string(name), "/")+1:])
	}
	left := mostDevices
	for _, o := range in.Objects.Objects["ResourceSlice"] {
		s, ok := o.(*resourcev1.ResourceSlice)
		if !ok || s.Spec.NodeName != nil && *s.Spec.NodeName != node {
			continue
		}
		for _, d := range s.Spec.Devices {
			before := len(out)
			for name, x := range d.Attributes {
				if named(name) {
					out[d.Name+"."+string(name)] = attributeText(x)
				}
			}
			for name, x := range d.Capacity {
				if named(name) {
					out[d.Name+"."+string(name)] = x.Value.String()
				}
			}
			if len(out) > before {
				left--
			}
			if left == 0 {
				return out
			}
		}
	}
	return out
}

// attributeText is what an attribute of a device holds.
func attributeText(x resourcev1.DeviceAttribute) string {
	switch {
	case x.IntValue != nil:
		return strconv.FormatInt(*x.IntValue, 10)
	case x.BoolValue != nil:
		return strconv.FormatBool(*x.BoolValue)
	case x.StringValue != nil:
		return *x.StringValue
	case x.VersionValue != nil:
		return *x.VersionValue
	}
	return ""
}
