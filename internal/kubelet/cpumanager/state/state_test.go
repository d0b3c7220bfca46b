package state_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/cpumanager/state"
	"github.com/gantry-project/gantry/test/expect"
)

// TestUpstreamsFile reads what kubelet v1.37.2 wrote (hack/numadiff) and writes the same bytes, and
// reads the forms of earlier kubelets to the same state.
func TestUpstreamsFile(t *testing.T) {
	newest := expect.File(t, "testdata/cpu_manager_state")
	want, err := state.Unmarshal(newest, "static")
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Assignments) == 0 {
		t.Fatal("the file has no assignments: record another")
	}
	if got, err := state.Marshal("static", want); err != nil || string(got) != strings.TrimSpace(string(newest)) {
		t.Errorf("written again: got %s and error %v, want %s", got, err, newest)
	}
	for _, name := range []string{"cpu_manager_state.v2", "cpu_manager_state.v3"} {
		raw := expect.File(t, "testdata/"+name)
		got, err := state.Unmarshal(raw, "static")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v and error %v, want %+v", name, got, err, want)
		}
		changed := strings.Replace(string(raw), `"policyName":"static"`, `"policyName":"static "`, 1)
		if _, err := state.Unmarshal([]byte(changed), "static "); !errors.Is(err, checkpointmanager.ErrCorrupt) {
			t.Errorf("%s changed by hand: got error %v, want checkpoint is corrupted", name, err)
		}
	}
}

func TestFilesThatDoNotRead(t *testing.T) {
	good, err := state.Marshal("static", state.State{Default: cpuset.New(0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ blob, policy, want string }{
		{string(good), "none", `configured policy "none" differs from state checkpoint policy "static"`},
		{strings.Replace(string(good), "defaultCpuSet\\\":\\\"0", "defaultCpuSet\\\":\\\"1", 1), "static",
			"could not load v4 checkpoint: checkpoint is corrupted"},
		{"", "static", "could not load v4 checkpoint: unexpected end of JSON input"},
		{`{"data":"{","dataChecksum":1}`, "static", "could not load v4 checkpoint: failed to deserialize cpu manager " +
			"checkpoint data: unexpected end of JSON input"},
		{`{"policyName":"static","defaultCpuSet":"x"}`, "static", `could not parse default CPU set "x": ` +
			`strconv.Atoi: parsing "x": invalid syntax`},
		{`{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"3-"}}}`, "static",
			`could not parse cpuset "3-" for container "c" in pod "u": strconv.Atoi: parsing "": invalid syntax`},
		{`{"policyName":"static","podEntries":{"u":{"cpuSet":"9-"}}}`, "static",
			`strconv.Atoi: parsing "": invalid syntax`},
		{`[]`, "static", "could not load v4 checkpoint: json: cannot unmarshal array into Go value of type " +
			"state.checkpointFile"},
	} {
		if _, err := state.Unmarshal([]byte(c.blob), c.policy); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", c.blob, err, c.want)
		}
	}
}
