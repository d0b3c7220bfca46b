package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
)

// upstream is what kubelet v1.37 writes for one claim.
const upstream = `{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",` +
	`\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",` +
	`\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":` +
	`{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",` +
	`\"ShareID\":null,\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":` +
	`[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":2570581864}`

// The file is upstream's, byte for byte, and read back.
func TestFormatIsUpstreams(t *testing.T) {
	want := []state.ClaimInfoState{{ClaimUID: "067798be-454e-4be4-9047-1aa06aea63f7", ClaimName: "example",
		Namespace: "default", PodUIDs: sets.New("139cdb46-f989-4f17-9561-ca10cfb509a6"),
		DriverState: map[string]state.DriverState{"test-driver.cdi.k8s.io": {Devices: []state.Device{{
			PoolName: "worker-1", DeviceName: "dev-1", RequestNames: []string{"test request"},
			CDIDeviceIDs: []string{"example.com/example=cdi-example"}}}}}}}
	got, err := state.Unmarshal([]byte(upstream))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("read: %v, %s, want no error, none", err, diff)
	}
	raw, err := state.Marshal(want)
	if err != nil || string(raw) != upstream {
		t.Errorf("got %s, %v, want %s", raw, err, upstream)
	}
}
