package systemdcgroup_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/logind/logindfake"
	"github.com/gantry-project/gantry/internal/linux/systemdcgroup"
)

// fakeSystemd is a systemd that keeps units in memory.
type fakeSystemd struct {
	bus *logindfake.Service

	mu     sync.Mutex
	units  map[string]map[string]any
	jobs   int
	result string // of all jobs
}

func start(t *testing.T) (*fakeSystemd, string) {
	t.Helper()
	bus, err := logindfake.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	m := &fakeSystemd{bus: bus, units: map[string]map[string]any{}, result: "done"}
	bus.Other = m.answer
	return m, bus.Address
}

func (m *fakeSystemd) answer(member string, args []any) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, _ := args[0].(string)
	set := func(list any) {
		for _, p := range list.([][]any) {
			m.units[name][p[0].(string)] = p[1].(dbus.Variant).Value()
		}
	}
	switch member {
	case "StartTransientUnit":
		if m.units[name] != nil {
			return nil, dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit " + name + " already exists."})
		}
		m.units[name] = map[string]any{}
		set(args[2])
	case "SetUnitProperties":
		set(args[2])
		return nil, nil
	case "StopUnit":
		if m.units[name] == nil {
			return nil, dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + name + " not loaded."})
		}
		delete(m.units, name)
	case "ResetFailedUnit":
		return nil, nil
	default:
		return nil, fmt.Errorf("no method %s", member)
	}
	m.jobs++
	job := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", m.jobs))
	return []any{job}, m.bus.Emit("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"JobRemoved", uint32(m.jobs), job, name, m.result)
}

func (m *fakeSystemd) unit(name string) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.units[name])
}

func ptr[T any](v T) *T { return &v }

const (
	tier = "/kubepods.slice/kubepods-burstable.slice"
	pod  = tier + "/kubepods-burstable-pod1_2.slice"
	name = "kubepods-burstable-pod1_2.slice"
)

// row: QOS-09
func TestSystemdOwnsSlices(t *testing.T) {
	m, address := start(t)
	for _, x := range []struct {
		unified bool
		want    map[string]any
	}{
		{true, map[string]any{"CPUWeight": uint64(59), "CPUQuotaPeriodUSec": uint64(100000),
			"CPUQuotaPerSecUSec": uint64(510000), "MemoryMax": uint64(1 << 20), "TasksMax": uint64(math.MaxUint64),
			"IOAccounting": true, "MemoryHigh": uint64(900)}},
		{false, map[string]any{"CPUShares": uint64(512), "CPUQuotaPerSecUSec": uint64(510000),
			"MemoryLimit": uint64(1 << 20), "TasksMax": uint64(math.MaxUint64), "BlockIOAccounting": true}},
	} {
		s, err := systemdcgroup.Dial(systemdcgroup.Options{Address: address, Unified: x.unified})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(x.want, map[string]any{
			"Description": "Pods of Gantry in " + name, "Wants": []string{"kubepods-burstable.slice"},
			"DefaultDependencies": false,
			"CPUAccounting":       true, "MemoryAccounting": true, "TasksAccounting": true,
		})
		v := cgroup.Values{Shares: ptr[uint64](512), Quota: ptr[int64](50500), Period: ptr[uint64](100000),
			Memory: ptr[int64](1 << 20), Pids: ptr[int64](-1)}
		if x.unified {
			v.Unified = map[string]string{"memory.high": "900"}
		}
		if err := s.Ensure(pod, v); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(x.want, m.unit(name)); d != "" {
			t.Errorf("the two differ (-want +got):\n%s", d)
		}
		// one that is there gets new values
		if err := s.Ensure(pod, cgroup.Values{Memory: ptr[int64](-1)}); err != nil {
			t.Fatal(err)
		}
		got := m.unit(name)
		if got["MemoryMax"] != uint64(math.MaxUint64) && got["MemoryLimit"] != uint64(math.MaxUint64) {
			t.Errorf("got %v, want MemoryMax or MemoryLimit without limit", got)
		}
		if err := s.Ensure(pod, cgroup.Values{}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing
			if err := s.Remove(pod); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.unit(name); got != nil {
			t.Errorf("got error %v, want none", got)
		}
		s.Close()
	}
}

func TestConnectionLost(t *testing.T) {
	m, address := start(t)
	s, err := systemdcgroup.Dial(systemdcgroup.Options{Address: address, Unified: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.bus.DropConnections()
	if err = s.Ensure(pod, cgroup.Values{}); err != nil {
		t.Fatal(err)
	}
	if m.unit(name) == nil {
		t.Error("no slice")
	}
}

func TestSystemdRefuses(t *testing.T) {
	if _, err := systemdcgroup.Dial(systemdcgroup.Options{Address: "unix:path=" + filepath.Join(t.TempDir(),
		"bus")}); err == nil || !strings.Contains(err.Error(), "systemd does not answer") {
		t.Errorf(`got %v, want an error with "systemd does not answer"`, err)
	}
	m, address := start(t)
	m.result = "failed"
	s, err := systemdcgroup.Dial(systemdcgroup.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ensure(pod, cgroup.Values{}); err == nil || !strings.Contains(err.Error(), "journalctl -u "+name) {
		t.Errorf("got %v, want an error with %v", err, "journalctl -u "+name)
	}
	if err := s.Remove(pod); err == nil {
		t.Error("a stop that failed is reported as done")
	}
	for _, p := range []string{"/kubepods/pod1", "/", "/other.slice/kubepods-pod1.slice"} {
		if err := s.Ensure(p, cgroup.Values{}); err == nil {
			t.Errorf("%s is no slice of systemd's", p)
		}
	}
	if len(m.units) > 1 {
		t.Errorf("got %v, want at most 1 in units", slices.Collect(maps.Keys(m.units)))
	}
}

// With a systemd to ask, its slices are directories of the kernel.
func TestRealSystemd(t *testing.T) {
	at := os.Getenv("GANTRY_SYSTEMD") // unix:path=/run/user/0/systemd/private
	if at == "" {
		t.Skip("GANTRY_SYSTEMD names no systemd")
	}
	for _, unified := range []bool{true, false} {
		s, err := systemdcgroup.Dial(systemdcgroup.Options{Address: at, Unified: unified})
		if err != nil {
			t.Fatal(err)
		}
		v := cgroup.Values{Shares: ptr[uint64](512), Quota: ptr[int64](50500), Period: ptr[uint64](100000),
			Memory: ptr[int64](1 << 20), Pids: ptr[int64](-1), Unified: map[string]string{"memory.high": "900000",
				"memory.min": "0"}}
		for range 2 {
			if err := s.Ensure(pod, v); err != nil {
				t.Error(unified, err)
			}
		}
		for _, p := range []string{pod, tier, "/kubepods.slice", pod} {
			if err := s.Remove(p); err != nil {
				t.Error(unified, err)
			}
		}
		s.Close()
	}
}
