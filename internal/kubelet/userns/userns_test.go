package userns

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// row: UNS-03
// row: UNS-04
func TestDefaultRange(t *testing.T) {
	p, err := Default(Config{MaxPods: 110})
	if err != nil || p != (Pool{First: 65536, Length: 7208960, PerPod: 65536}) {
		t.Errorf("got %+v %v, want no error and p %v", p, err, Pool{First: 65536, Length: 7208960, PerPod: 65536})
	}
	twice := int64(131072)
	if p, err := Default(Config{MaxPods: 10, IDsPerPod: &twice}); err != nil ||
		p != (Pool{First: 131072, Length: 1310720, PerPod: 131072}) {
		t.Errorf("got %+v %v, want no error and p %v", p, err, Pool{First: 131072, Length: 1310720, PerPod: 131072})
	}
	for _, bad := range []int64{0, -65536, 65537, 1 << 32} {
		if _, err := Default(Config{MaxPods: 1, IDsPerPod: &bad}); err == nil || !strings.Contains(err.Error(),
			"userNamespaces.idsPerPod") {
			t.Errorf(`%d: got %v, want an error with "userNamespaces.idsPerPod"`, bad, err)
		}
	}
	huge := int64(1 << 30)
	if _, err := Default(Config{MaxPods: 110, IDsPerPod: &huge}); err == nil {
		t.Error("110 Pods of 2^30 ids were found to fit")
	}
}

func TestSubordinateIDs(t *testing.T) {
	const example = "0: kubelet 65536 7208960\n"
	for _, c := range []struct{ name, uids, gids, want string }{
		// row: UNS-16
		{"the example of the documentation", example, example, ""},
		// row: UNS-11
		{"first id off the raster", "0: kubelet 70000 7208960\n", "",
			"kubelet user assigned ID 70000 is not a multiple of 65536"},
		// row: UNS-11
		{"first id 0", "0: kubelet 0 7208960\n", "", "kubelet user assigned ID 0 must be greater or equal to 65536"},
		// row: UNS-12
		{"count off the raster", "0: kubelet 65536 70000\n", "",
			"kubelet user assigned IDs length 70000 is not a multiple of 65536"},
		// row: UNS-13
		{"too few", "0: kubelet 65536 65536\n", "",
			"kubelet user assigned IDs are not enough to support 110 pods: 7208960 ids are needed, 65536 are assigned"},
		// row: UNS-14
		{"groups differ", example, "0: kubelet 131072 7208960\n",
			"mismatched subuids and subgids for user \"kubelet\""},
		// row: UNS-15
		{"two lines", "0: kubelet 65536 7208960\n1: kubelet 10000000 65536\n", "", "it must contain only one line"},
		// row: UNS-15
		{"two lines of groups", example, example + "1: kubelet 10000000 65536\n", "mismatched subuids and subgids"},
		// row: UNS-13
		{"one Pod too few", "0: kubelet 65536 7143424\n", "",
			"not enough to support 110 pods: 7208960 ids are needed, 7143424 are assigned"},
		// row: UNS-14
		{"fewer groups", example, "0: kubelet 65536 7274496\n", "mismatched subuids and subgids for user \"kubelet\""},
		// row: UNS-11
		{"last id below the raster", "0: kubelet 65535 7208960\n", "", "65535 is not a multiple of 65536"},
		// row: UNS-12
		{"count one off", "0: kubelet 65536 7208961\n", "", "length 7208961 is not a multiple of 65536"},
		{"nothing", "", "", "invalid line"},
		{"words", "0: kubelet many ids\n", "", "invalid line"},
		{"beyond 32 bits", "0: kubelet 4294901760 7208960\n", "", "do not fit into 32 bits"},
	} {
		if c.gids == "" {
			c.gids = c.uids
		}
		p, err := Subordinate(Config{MaxPods: 110}, c.uids, c.gids)
		switch {
		case c.want == "" && (err != nil || p != Pool{First: 65536, Length: 7208960, PerPod: 65536}):
			t.Errorf("%s: got %+v %v, want no error and p %v", c.name, p, err,
				Pool{First: 65536, Length: 7208960, PerPod: 65536})
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %v", c.name, err, c.want)
		}
	}
}

// Fewer Pods need fewer ids; a range may begin anywhere on the raster and be longer than it has to.
//
// row: UNS-11
// row: UNS-12
// row: UNS-13
func TestSubordinateIDsOfFewPods(t *testing.T) {
	for line, want := range map[string]Pool{
		"0: kubelet 131072 655360\n":      {First: 131072, Length: 655360, PerPod: 65536},
		"0: kubelet 65536 720896\n":       {First: 65536, Length: 720896, PerPod: 65536},
		"0: kubelet 2147483648 6553600\n": {First: 2147483648, Length: 6553600, PerPod: 65536},
		"0: kubelet 131072 589824\n":      {},
	} {
		p, err := Subordinate(Config{MaxPods: 10}, line, line)
		if want == (Pool{}) {
			if err == nil || !strings.Contains(err.Error(), "655360 ids are needed, 589824 are assigned") {
				t.Errorf("%q: got %+v, %v, want too few for ten Pods", line, p, err)
			}
			continue
		}
		if err != nil || p.First != want.First || p.PerPod != want.PerPod || p.Length < 655360 ||
			p.Length > want.Length {
			t.Errorf("%q: got %+v, %v, want %+v", line, p, err, want)
		}
	}
}

// row: UNS-02
func TestRangesNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := int64(Unit * rapid.IntRange(1, 3).Draw(t, "units"))
		pods := rapid.Int32Range(1, 30).Draw(t, "pods")
		p, err := Default(Config{MaxPods: pods, IDsPerPod: &per})
		if err != nil {
			t.Fatal(err)
		}
		var have []Range // of Pods that came under another length too
		var last Range
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(have) > 0 && rapid.Bool().Draw(t, "goes") {
				i := rapid.IntRange(0, len(have)-1).Draw(t, "which")
				have = append(have[:i:i], have[i+1:]...)
				continue
			}
			r, err := p.Pick(last, have)
			if err != nil {
				if len(have) < int(pods) {
					t.Fatalf("refused with %d of %d: %v", len(have), pods, err)
				}
				continue
			}
			for _, o := range have {
				if r.overlaps(o) {
					t.Fatalf("%v meets %v", r, o)
				}
			}
			if r.First%Unit != 0 || r.First < Unit || uint64(r.First)+uint64(r.Length) > uint64(p.First)+p.Length {
				t.Fatalf("%v is not in %v", r, p)
			}
			if r == last && len(have) < int(pods)-1 {
				t.Fatalf("%v is given again at once, though %d of %d are free", r, int(pods)-len(have), pods)
			}
			have, last = append(have, r), r
		}
	})
}

func TestPickPassesRangesOfAnotherLength(t *testing.T) {
	p := Pool{First: 131072, Length: 4 * 131072, PerPod: 131072}
	r, err := p.Pick(Range{}, []Range{{131072 + 65536, 65536}, {65536, 65536}})
	if err != nil || r != (Range{262144, 131072}) {
		t.Errorf("got %v %v, want no error and r %v", r, err, Range{262144, 131072})
	}
}

// After the pool's end comes its beginning; a last range of another pool counts for nothing.
func TestPickGoesOnAfterTheLast(t *testing.T) {
	p := Pool{First: 65536, Length: 3 * 65536, PerPod: 65536}
	for _, c := range []struct {
		last  Range
		taken []Range
		want  uint32
	}{
		{want: 65536},
		{last: Range{65536, 65536}, want: 131072},
		{last: Range{131072, 65536}, want: 196608},
		{last: Range{196608, 65536}, want: 65536},
		{last: Range{65536, 65536}, taken: []Range{{131072, 65536}, {196608, 65536}}, want: 65536},
		{last: Range{65536, 1}, want: 131072},
		{last: Range{1 << 30, 65536}, want: 65536},
	} {
		r, err := p.Pick(c.last, c.taken)
		if err != nil || r != (Range{c.want, 65536}) {
			t.Errorf("after %v, with %v taken: got %v %v, want the one from %d", c.last, c.taken, r, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	want := Range{131072, 65536}
	if r, err := Parse(Format(want)); err != nil || r != want {
		t.Errorf("got %v %v, want no error and r %v", r, err, want)
	}
	for _, c := range []struct{ raw, want string }{
		{``, "unexpected end"},
		{`{}`, "no more than one mapping"},
		{`{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,` +
			`"containerId":0,"length":65536}]}`, "identical"},
		{`{"uidMappings":[{"hostId":65536,"containerId":1,"length":65536}],"gidMappings":[{"hostId":65536,` +
			`"containerId":1,"length":65536}]}`, "UID 0 must be mapped"},
		{`{"uidMappings":[{"hostId":1,"containerId":0,"length":65536}],"gidMappings":[{"hostId":1,"containerId":0,` +
			`"length":65536}]}`, "first id 1"},
		{`{"uidMappings":[{"hostId":65536,"containerId":0,"length":1}],"gidMappings":[{"hostId":65536,` +
			`"containerId":0,"length":1}]}`, "wrong length 1"},
		{`{"uidMappings":[{"hostId":4294901760,"containerId":0,"length":131072}],"gidMappings":[{"hostId":4294901760,` +
			`"containerId":0,"length":131072}]}`, "32 bits"},
	} {
		if _, err := Parse([]byte(c.raw)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %v", c.raw, err, c.want)
		}
	}
}

func TestCheckPod(t *testing.T) {
	no := false
	for field, change := range map[string]func(*v1.PodSpec){
		"hostNetwork": func(s *v1.PodSpec) { s.HostNetwork = true },
		"hostPID":     func(s *v1.PodSpec) { s.HostPID = true }, "hostIPC": func(s *v1.PodSpec) { s.HostIPC = true },
	} {
		pod := &v1.Pod{}
		change(&pod.Spec)
		if err := Check(pod); err != nil {
			t.Errorf("%s with the host's users: got %v, want no error", field, err)
		}
		pod.Spec.HostUsers = &no
		if err := Check(pod); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want an error with %v", field, err, field)
		}
	}
}
