package endpointslicemirroring

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var db = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", UID: "u"}}

// addresses are "ip" or "ip/host".
func addresses(all string) (out []corev1.EndpointAddress) {
	for _, one := range strings.Fields(all) {
		ip, host, _ := strings.Cut(one, "/")
		out = append(out, corev1.EndpointAddress{IP: ip, Hostname: host})
	}
	return out
}

func subset(ready, notReady string, ports ...corev1.EndpointPort) corev1.EndpointSubset {
	return corev1.EndpointSubset{Addresses: addresses(ready), NotReadyAddresses: addresses(notReady), Ports: ports}
}

func endpoints(all ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Subsets: all}
}

func port(name string, n int32) corev1.EndpointPort {
	return corev1.EndpointPort{Name: name, Port: n, Protocol: corev1.ProtocolTCP}
}

// text prints a slice: family, ports, addresses with their host names, and ! of those not ready.
func text(s *discoveryv1.EndpointSlice) string {
	out := string(s.AddressType)
	for _, p := range s.Ports {
		out += fmt.Sprintf(" %s:%d", *p.Name, *p.Port)
	}
	out += " ="
	for _, e := range s.Endpoints {
		out += " " + e.Addresses[0]
		if e.Hostname != nil {
			out += "/" + *e.Hostname
		}
		if !*e.Conditions.Ready {
			out += "!"
		}
	}
	return out
}

func texts(all []*discoveryv1.EndpointSlice) string {
	var out []string
	for _, s := range all {
		out = append(out, text(s))
	}
	return strings.Join(out, "; ")
}

func TestSlicesOfSubsets(t *testing.T) {
	many := func(net string, n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("10.%s.%d.%d", net, i/250, 1+i%250))
		}
		return strings.Join(out, " ")
	}
	for name, c := range map[string]struct {
		e    *corev1.Endpoints
		want string
	}{
		"none":            {endpoints(), ""},
		"without address": {endpoints(subset("", "", port("a", 1))), ""},
		"one": {endpoints(subset("10.0.0.1/x 10.0.0.2", "10.0.0.3", port("a", 1))),
			"IPv4 a:1 = 10.0.0.1/x 10.0.0.2 10.0.0.3!"},
		"families": {endpoints(subset("10.0.0.1 fd00::1", "fd00::2 10.0.0.2", port("a", 1))),
			"IPv4 a:1 = 10.0.0.1 10.0.0.2!; IPv6 a:1 = fd00::1 fd00::2!"},
		"not ready alone": {endpoints(subset("", "10.0.0.3", port("a", 1), port("b", 2))), "IPv4 a:1 b:2 = 10.0.0.3!"},
		"subsets of other ports": {endpoints(subset("10.0.0.1", "", port("a", 1)), subset("10.0.0.2", "", port("a", 2)),
			subset("10.0.0.3", "", port("b", 1))), "IPv4 a:1 = 10.0.0.1; IPv4 a:2 = 10.0.0.2; IPv4 b:1 = 10.0.0.3"},
		"subsets of the same": {endpoints(subset("10.0.0.1", "", port("a", 1)), subset("10.0.0.2", "", port("a", 1))),
			"IPv4 a:1 = 10.0.0.1 10.0.0.2"},
		"without ports":         {endpoints(subset("10.0.0.1", "")), "IPv4 = 10.0.0.1"},
		"what is no address":    {endpoints(subset("x 10.0.0.1", "y")), "IPv4 = 10.0.0.1"},
		"an IPv4 in IPv6 dress": {endpoints(subset("::ffff:10.0.0.1", "")), "IPv4 = 10.0.0.1"},
		"with leading zeros":    {endpoints(subset("010.00.0.01", "")), "IPv4 = 10.0.0.1"},
		"twice":                 {endpoints(subset("10.0.0.1", "10.0.0.1", port("a", 1))), "IPv4 a:1 = 10.0.0.1!"},
		"ports of the same addresses": {endpoints(subset("10.0.0.1", "10.0.0.2", port("a", 1)),
			subset("10.0.0.1", "10.0.0.2", port("b", 2))), "IPv4 a:1 b:2 = 10.0.0.1 10.0.0.2!"},
		"ports of others": {endpoints(subset("10.0.0.1 10.0.0.2", "", port("a", 1)), subset("10.0.0.1", "10.0.0.2",
			port("b", 2))), "IPv4 a:1 = 10.0.0.1 10.0.0.2; IPv4 b:2 = 10.0.0.1 10.0.0.2!"},
	} {
		if got := texts(Next(db, c.e, nil).Create); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	for _, c := range []struct{ ready, not, want int }{{1000, 0, 1000}, {1001, 0, 1000}, {999, 2, 1000},
		{1000, 1, 1000}, {500, 499, 999}} {
		plan := Next(db, endpoints(subset(many("0", c.ready), many("1", c.not), port("a", 1))), nil)
		if got := len(plan.Create[0].Endpoints); got != c.want || len(plan.Create) != 1 {
			t.Errorf("%d and %d not ready: got %d, want %d", c.ready, c.not, got, c.want)
		}
	}
	// the bound is of all that have the same ports
	plan := Next(db, endpoints(subset(many("0", 1000), "", port("a", 1)), subset("10.9.9.9", "", port("a", 1)),
		subset("10.9.9.8", "", port("b", 1))), nil)
	if got := len(plan.Create[0].Endpoints); got != 1000 || len(plan.Create) != 2 {
		t.Errorf("three subsets: got %d in the first of %d slices, want 1000 of 2", got, len(plan.Create))
	}
}

// What is left out is told about the Endpoints, in upstream's words.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	const tooMany = "TooManyAddressesToMirror: A max of 1000 addresses can be mirrored to EndpointSlices per " +
		"Endpoints subset. %d addresses were skipped"
	const invalid = "InvalidIPAddress: Skipped %d invalid IP addresses when mirroring to EndpointSlices"
	var many []string
	for i := range maxEndpointsPerSubset {
		many = append(many, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	full := strings.Join(many, " ")
	for name, c := range map[string]struct {
		e    *corev1.Endpoints
		want []string
	}{
		"all are mirrored": {endpoints(subset(full, "", port("a", 1))), nil},
		"no addresses":     {endpoints(subset("x 10.0.0.1", "y", port("a", 1))), []string{fmt.Sprintf(invalid, 2)}},
		"too many": {endpoints(subset(full, "10.0.0.1 10.0.0.2", port("a", 1))),
			[]string{fmt.Sprintf(tooMany, 2)}},
		"both": {endpoints(subset("x "+full+" 10.0.0.1", "", port("a", 1))),
			[]string{fmt.Sprintf(invalid, 1), fmt.Sprintf(tooMany, 2)}},
	} {
		client := fake.NewClientset()
		shared := informers.NewSharedInformerFactory(client, 0)
		said := record.NewFakeRecorder(9)
		d := controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: said}
		core := shared.Core().V1()
		k := &controller{controllerContext: d, services: core.Services().Lister(), endpoints: core.Endpoints().Lister(),
			slices: shared.Discovery().V1().EndpointSlices().Lister(), mirrored: mirrored{by: map[string]Counts{}}}
		if err := core.Services().Informer().GetIndexer().Add(db); err != nil {
			t.Fatal(err)
		}
		if err := core.Endpoints().Informer().GetIndexer().Add(c.e); err != nil {
			t.Fatal(err)
		}
		if _, err := k.syncEndpoints(t.Context(), "ns/db"); err != nil {
			t.Fatal(err)
		}
		close(said.Events)
		var got []string
		for e := range said.Events {
			kind, rest, _ := strings.Cut(e, " ")
			reason, message, _ := strings.Cut(rest, " ")
			if kind != corev1.EventTypeWarning {
				t.Errorf("%s: got an event of type %s, want Warning", name, kind)
			}
			got = append(got, reason+": "+message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAMirroredSliceIsOfItsService(t *testing.T) {
	e := endpoints(subset("10.0.0.1", "", port("a", 1)))
	e.Labels = map[string]string{"l": "1", discoveryv1.LabelServiceName: "other", discoveryv1.LabelManagedBy: "me"}
	e.Annotations = map[string]string{"a": "1", corev1.LastAppliedConfigAnnotation: "x",
		corev1.EndpointsLastChangeTriggerTime: "y"}
	node := "n"
	https := "https"
	e.Subsets[0].Addresses[0].NodeName, e.Subsets[0].Addresses[0].TargetRef = &node, &corev1.ObjectReference{Name: "p"}
	e.Subsets[0].Ports[0].AppProtocol = &https
	s := Next(db, e, nil).Create[0]
	got := fmt.Sprint(s.Namespace, " ", s.GenerateName, " ", s.Labels, " ", s.Annotations, " ",
		s.OwnerReferences[0].Kind, " ",
		s.OwnerReferences[0].APIVersion, " ", s.OwnerReferences[0].Name, " ", *s.OwnerReferences[0].Controller, " ",
		*s.Endpoints[0].NodeName, " ", s.Endpoints[0].TargetRef.Name, " ", *s.Ports[0].AppProtocol, " ",
		*s.Ports[0].Protocol,
		" ", s.Endpoints[0].Hostname == nil)
	want := "ns db- map[endpointslice.kubernetes.io/managed-by:endpointslicemirroring-controller.k8s.io " +
		"kubernetes.io/service-name:db l:1] map[a:1] Endpoints v1 db true n p https TCP true"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e.Labels[discoveryv1.LabelServiceName] != "other" || len(e.Annotations) != 3 {
		t.Errorf("the Endpoints themselves changed: %v %v", e.Labels, e.Annotations)
	}
}

func TestSlicesFollow(t *testing.T) {
	one := endpoints(subset("10.0.0.1", "", port("a", 1)))
	have := Next(db, one, nil).Create[0]
	have.Name, have.ResourceVersion = "db-1", "7"
	second, third := have.DeepCopy(), have.DeepCopy()
	second.Name, third.Name = "db-3", "db-2"
	labelled, annotated := endpoints(one.Subsets...), endpoints(one.Subsets...)
	labelled.Labels, annotated.Annotations = map[string]string{"l": "1"}, map[string]string{"a": "1"}
	udp := port("a", 1)
	udp.Protocol = corev1.ProtocolUDP
	https := "https"
	app := port("a", 1)
	app.AppProtocol = &https
	for name, c := range map[string]struct {
		e    *corev1.Endpoints
		have []*discoveryv1.EndpointSlice
		want string // names of what is created, updated, deleted
	}{
		"as it is": {one, []*discoveryv1.EndpointSlice{have}, "[] [] []"},
		"twice":    {one, []*discoveryv1.EndpointSlice{have, second, third}, "[] [] [db-2 db-3]"},
		"other addresses": {endpoints(subset("10.0.0.2", "", port("a", 1))), []*discoveryv1.EndpointSlice{have},
			"[] [db-1] []"},
		"other labels": {labelled, []*discoveryv1.EndpointSlice{have}, "[] [db-1] []"},
		"other notes":  {annotated, []*discoveryv1.EndpointSlice{have}, "[] [db-1] []"},
		"another port": {endpoints(subset("10.0.0.1", "", port("a", 2))), []*discoveryv1.EndpointSlice{have},
			"[db-] [] [db-1]"},
		"another name": {endpoints(subset("10.0.0.1", "", port("b", 1))), []*discoveryv1.EndpointSlice{have},
			"[db-] [] [db-1]"},
		"another protocol": {endpoints(subset("10.0.0.1", "", udp)), []*discoveryv1.EndpointSlice{have},
			"[db-] [] [db-1]"},
		"an application's": {endpoints(subset("10.0.0.1", "", app)), []*discoveryv1.EndpointSlice{have},
			"[db-] [] [db-1]"},
		"another family": {endpoints(subset("fd00::1", "", port("a", 1))), []*discoveryv1.EndpointSlice{have},
			"[db-] [] [db-1]"},
		"two ports": {endpoints(subset("10.0.0.1", "", port("a", 1), port("b", 2))),
			[]*discoveryv1.EndpointSlice{have}, "[db-] [] [db-1]"},
		"nothing": {endpoints(), []*discoveryv1.EndpointSlice{second, have}, "[] [] [db-1 db-3]"},
	} {
		plan := Next(db, c.e, c.have)
		names := func(all []*discoveryv1.EndpointSlice) (out []string) {
			for _, s := range all {
				out = append(out, s.Name+strings.Repeat(s.GenerateName, map[bool]int{true: 1}[s.Name == ""]))
			}
			return out
		}
		if got := fmt.Sprint(names(plan.Create), " ", names(plan.Update), " ", names(plan.Delete)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		for _, s := range plan.Update {
			if s.ResourceVersion != "7" || !slices.Equal(s.Endpoints[0].Addresses,
				[]string{c.e.Subsets[0].Addresses[0].IP}) ||
				s.Labels["l"] != c.e.Labels["l"] || s.Annotations["a"] != c.e.Annotations["a"] {
				t.Errorf("%s: writes %+v", name, s)
			}
		}
	}
	if text(have) != "IPv4 a:1 = 10.0.0.1" || have.Labels["l"] != "" {
		t.Errorf("what was there changed: %s", text(have))
	}
}

func TestWhichEndpointsAreMirrored(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Endpoints)
		want   bool
	}{
		"plain": {func(*corev1.Endpoints) {}, true},
		"opts out": {func(e *corev1.Endpoints) {
			e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
		}, false},
		"does not": {func(e *corev1.Endpoints) {
			e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "false"}
		}, true},
		"of the controller": {func(e *corev1.Endpoints) {
			e.Labels = map[string]string{"endpoints.kubernetes.io/managed-by": "x"}
		}, false},
		"of an election": {func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "x"}
		}, false},
		"of none any more": {func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": ""}
		}, true},
		"with other notes":    {func(e *corev1.Endpoints) { e.Annotations = map[string]string{"a": "b"} }, true},
		"that are going away": {func(e *corev1.Endpoints) { e.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		e := endpoints()
		c.change(e)
		if got := ShouldMirror(e); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

// Endpoints count as upstream counts them: those of a slice that is there by what they gain, change
// and lose; a slice that goes away counts nothing; addresses beyond the bound are skipped.
func TestEndpointsAreCounted(t *testing.T) {
	one := endpoints(subset("10.0.0.1 10.0.0.2", "10.0.0.3", port("a", 1)))
	have := Next(db, one, nil).Create[0]
	var many []string
	for i := range maxEndpointsPerSubset + 2 {
		many = append(many, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	for name, c := range map[string]struct {
		e    *corev1.Endpoints
		have []*discoveryv1.EndpointSlice
		want Counts
	}{
		"new":      {one, nil, Counts{Added: 3, Endpoints: 3, Slices: 1}},
		"as it is": {one, []*discoveryv1.EndpointSlice{have}, Counts{Endpoints: 3, Slices: 1}},
		"one more, one ready, one less": {endpoints(subset("10.0.0.1 10.0.0.3 10.0.0.4", "", port("a", 1))),
			[]*discoveryv1.EndpointSlice{have}, Counts{Added: 1, Updated: 1, Removed: 1, Endpoints: 3, Slices: 1}},
		"another port": {endpoints(subset("10.0.0.1", "", port("b", 1))), []*discoveryv1.EndpointSlice{have},
			Counts{Added: 1, Endpoints: 1, Slices: 1}},
		"two families": {endpoints(subset("10.0.0.1 fd00::1", "", port("a", 1))), nil,
			Counts{Added: 2, Endpoints: 2, Slices: 2}},
		"too many": {endpoints(subset(strings.Join(many, " "), "10.0.0.9", port("a", 1))), nil,
			Counts{Added: maxEndpointsPerSubset, Skipped: 3, Endpoints: maxEndpointsPerSubset, Slices: 1}},
	} {
		if got := Next(db, c.e, c.have).Counts; got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// The totals are of all Endpoints that are mirrored, and follow them.
func TestTotalsFollowEndpoints(t *testing.T) {
	m := mirrored{by: map[string]Counts{}}
	shown := func() string {
		var out []string
		for _, g := range []*metrics.GaugeVec{endpointsDesired, numSlices, desiredSlices} {
			v, err := testutil.GetGaugeMetricValue(g.WithLabelValues())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(v))
		}
		return strings.Join(out, " ")
	}
	for _, step := range []struct {
		key     string
		mirrors bool
		now     Counts
		want    string
	}{
		{"ns/a", true, Counts{Endpoints: 3, Slices: 1}, "3 1 1"},
		{"ns/b", true, Counts{Endpoints: 4, Slices: 2}, "7 3 3"},
		{"ns/a", true, Counts{Endpoints: 1, Slices: 1}, "5 3 3"},
		{"ns/c", false, Counts{}, "5 3 3"},
		{"ns/b", false, Counts{Endpoints: 4, Slices: 2}, "1 1 1"},
	} {
		m.note(step.key, step.mirrors, step.now)
		if got := shown(); got != step.want {
			t.Errorf("after %s: got %s, want %s", step.key, got, step.want)
		}
	}
}
