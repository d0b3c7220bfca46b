package podactions

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/userns"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// fakeRuntime is a runtime with one handler.
type fakeRuntime struct {
	internalapi.RuntimeService
	handler          string
	userns, readOnly bool
}

func (a fakeRuntime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{
		{Name: a.handler, Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: a.userns,
			RecursiveReadOnlyMounts: a.readOnly}},
	}}, nil
}

type fixedRange userns.Range

func (f fixedRange) GetOrCreate(context.Context, types.UID) (userns.Range, error) {
	return userns.Range(f), nil
}

// row: UNS-01, UNS-04, UNS-07, UNS-14
func TestUserNamespaceInSandboxContainerAndMounts(t *testing.T) {
	refusal := false
	call := testOperation(t, &fakePorts{},
		testPod(v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}))
	call.executor.d.Runtime, call.executor.d.UserNamespaces = fakeRuntime{userns: true},
		fixedRange{First: 131072, Length: 65536}
	call.pod.Spec.HostUsers = &refusal
	call.state.mounted = map[string]volume.Mounted{"v": {Path: "/vol"}}
	sandbox, err := call.sandboxConfig(t.Context(), 0, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := podplan.MemberOf(call.pod, "c")
	s, err := call.securityContext(t.Context(), m, "img")
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]*runtimeapi.UserNamespace{
		"sandbox":   sandbox.Linux.SecurityContext.NamespaceOptions.UsernsOptions,
		"container": s.NamespaceOptions.UsernsOptions,
	} {
		if u.GetMode() != runtimeapi.NamespaceMode_POD || !isWholeRange(u.GetUids()) || !isWholeRange(u.GetGids()) {
			t.Errorf("%s: got %v, want mode POD, and users and groups 0 to 65535 as 131072 and so on", name, u)
		}
	}
	mounts, err := call.mounts(t.Context(), m, &environment{})
	if err != nil || len(mounts) != 2 {
		t.Fatalf("got %v, %v, want no error and 2 in mounts", mounts, err)
	}
	for _, mount := range mounts {
		if !isWholeRange(mount.UidMappings) || !isWholeRange(mount.GidMappings) {
			t.Errorf("%s is not idmapped: %v", mount.ContainerPath, mount)
		}
	}
}

// isWholeRange tells whether ids 0 to 65535 inside are 131072 and so on outside.
func isWholeRange(ids []*runtimeapi.IDMapping) bool {
	return len(ids) == 1 && ids[0].HostId == 131072 && ids[0].ContainerId == 0 && ids[0].Length == 65536
}

// row: UNS-17
func TestUserNamespaceIsRefusedWhereTheRuntimeHasNone(t *testing.T) {
	refusal, yes := false, true
	for _, c := range []struct {
		name   string
		change func(*operation)
		want   string
	}{
		{"feature missing", func(c *operation) { c.executor.d.Runtime = fakeRuntime{} },
			`RuntimeClass handler "" does not support user namespaces`},
		{"handler unknown", func(c *operation) { c.executor.d.Runtime = fakeRuntime{handler: "kata", userns: true} },
			`the handler "" is not known`},
		{"host network", func(c *operation) { c.pod.Spec.HostNetwork = true },
			"spec.hostNetwork: Forbidden: when `hostUsers` is false: set one of the two"},
		{"host PIDs", func(c *operation) { c.pod.Spec.HostPID = true },
			"spec.hostPID: Forbidden: when `hostUsers` is false: set one of the two"},
		{"host IPC", func(c *operation) { c.pod.Spec.HostIPC = true },
			"spec.hostIPC: Forbidden: when `hostUsers` is false: set one of the two"},
	} {
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
		call.executor.d.Runtime, call.executor.d.UserNamespaces = fakeRuntime{userns: true},
			fixedRange{First: 131072, Length: 65536}
		call.pod.Spec.HostUsers = &refusal
		c.change(call)
		if _, err := call.sandboxConfig(t.Context(), 0, func(string, string) {}); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.pod.Spec.HostUsers = &yes
	if sandbox, err := call.sandboxConfig(t.Context(), 0, func(string, string) {}); err != nil ||
		sandbox.Linux.SecurityContext.NamespaceOptions.UsernsOptions.Mode != runtimeapi.NamespaceMode_NODE {
		t.Errorf("hostUsers true: %v %v", sandbox, err)
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	enabled, possible, both := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible,
		v1.MountPropagationBidirectional
	for _, c := range []struct {
		name  string
		mount v1.VolumeMount
		can   bool
		want  bool
		err   string
	}{
		{"enabled", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &enabled}, true, true, ""},
		{"enabled, runtime cannot", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &enabled}, false, false,
			`volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		{"if possible, it is", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &possible}, true, true, ""},
		{"if possible, it is not", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &possible}, false, false, ""},
		{"not read-only", v1.VolumeMount{RecursiveReadOnly: &enabled}, true, false,
			`volume "v" requested recursive read-only mode, but it is not read-only`},
		{"propagates", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &both}, true,
			false, `volume "v" requested recursive read-only mode, but it is not compatible with propagation ` +
				`"Bidirectional"`},
	} {
		c.mount.Name = "v"
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
		call.executor.d.Runtime = fakeRuntime{readOnly: c.can}
		got, err := call.recursiveReadOnly(t.Context(), &c.mount)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %v %v, want %v, error %q", c.name, got, err, c.want, c.err)
		}
	}
}

// row: DEV-04
func TestDevices(t *testing.T) {
	c := v1.Container{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "b", DevicePath: "/dev/x"}}}
	call := testOperation(t, &fakePorts{}, testPod(c))
	m, _ := podplan.MemberOf(call.pod, "c")
	call.state.mounted = map[string]volume.Mounted{"b": {Path: "/dev/loop9", Device: true, ReadOnly: true}}
	if d, err := call.devices(m); err != nil || len(d) != 1 || d[0].HostPath != "/dev/loop9" ||
		d[0].ContainerPath != "/dev/x" || d[0].Permissions != "r" {
		t.Errorf("got %v, %v, want no error, 1 in d, HostPath /dev/loop9, ContainerPath /dev/x and Permissions r", d,
			err)
	}
	call.state.mounted["b"] = volume.Mounted{Path: "/vol"}
	if _, err := call.devices(m); err == nil || err.Error() != `cannot find volume "b" to pass into container "c"` {
		t.Errorf(`got %v, want error 'cannot find volume "b" to pass into container "c"'`, err)
	}
}
