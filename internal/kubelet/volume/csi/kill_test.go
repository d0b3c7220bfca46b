package csi_test

import (
	"context"
	"fmt"
	"path/filepath"
	runtimepkg "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
)

// The driver, or the kubelet, is killed at each call, before the call's work or between it and its
// answer. What follows brings the volume, a file system or a raw one, to its Pod and takes it away
// again: nothing is left, a volume that was to grow has grown, and the driver, which refuses calls
// out of order, refuses none.
func TestKilledAtEveryCall(t *testing.T) {
	always := []string{"NodeGetCapabilities", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
		"NodeUnstageVolume"}
	for kind, methods := range map[string][]string{"file system": always, "raw": always,
		"growing": {"NodeExpandVolume", "NodePublishVolume"}} {
		for _, method := range methods {
			for _, worked := range []bool{false, true} {
				for _, victim := range []string{"driver", "kubelet"} {
					t.Run(fmt.Sprintf("%s/%s/worked=%t/%s", kind, method, worked, victim), func(t *testing.T) {
						killedAt(t, kind, &killing{method: method, worked: worked, victim: victim})
					})
				}
			}
		}
	}
}

// killedAt has a Pod use a volume and end, while the victim is killed.
func killedAt(t *testing.T, kind string, x *killing) {
	x.rig = newRig(t, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	pod := claiming("a")
	switch kind {
	case "raw":
		x.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
		pod.Spec.Containers[0] = v1.Container{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "v"}}}
	case "growing":
		x.spec.ClaimSize = ptr.To(resource.MustParse("512Mi"))
	}
	x.try(func(ctx context.Context) error { _, err := x.MountVolumes(ctx, pod); return err })
	if grown := len(x.api.grown) > 0; grown != (kind == "growing") {
		t.Errorf("the claim has its new size: got %t, want %t", grown, (kind == "growing"))
	}
	x.try(func(ctx context.Context) error { return x.UnmountVolumes(ctx, "a") })
	x.try(func(ctx context.Context) error { // the sweep unstages what the Pod did not wait for
		_, err := x.CleanupOrphans(ctx, func(types.UID) bool { return false })
		return err
	})
	if !x.killed {
		t.Error("nobody was killed")
	}
	if left := x.driver.Left(); len(left) > 0 {
		t.Errorf("the driver has %v left", left)
	}
	of := "*/*" // of drivers
	if kind == "raw" {
		of = "volumeDevices/*/*" // staging and publish themselves stay
		if len(x.held) > 0 {
			t.Errorf("kept open: %v, want nothing", x.held)
		}
	}
	for _, dir := range []string{"pods/*", "plugins/kubernetes.io/csi/" + of} {
		if left, _ := filepath.Glob(filepath.Join(x.root, dir)); len(left) > 0 {
			t.Errorf("left on the node: %v", left)
		}
	}
}

// A driver that is killed when it is asked for its node is not registered, and is once it has come
// back; a kubelet that is killed meanwhile registers it when it has come back.
func TestKilledAtRegistration(t *testing.T) {
	for _, worked := range []bool{false, true} {
		info := &nodeInfo{}
		d := (&csitest.Driver{Name: "disk.example.com"}).Start(t)
		drivers := csi.NewDrivers(t.Context(), info)
		d.Die("NodeGetInfo", worked)
		if err := drivers.RegisterPlugin(d.Name, d.Endpoint(), nil); err == nil || len(drivers.Names()) > 0 {
			t.Errorf("worked=%t: got error %v and the drivers %v, want a refusal", worked, err, drivers.Names())
		}
		if err := drivers.RegisterPlugin(d.Name, d.Endpoint(), nil); err != nil {
			t.Error(err)
		}
		again := csi.NewDrivers(t.Context(), info) // of the next kubelet
		if err := again.RegisterPlugin(d.Name, d.Endpoint(), nil); err != nil {
			t.Error(err)
		}
		want := []string{"gone " + d.Name, d.Name + " id-of-node", d.Name + " id-of-node"}
		if !slices.Equal(info.installed, want) || !slices.Equal(again.Names(), []string{d.Name}) {
			t.Errorf("worked=%t: the API was told %q of %v, want %q", worked, info.installed, again.Names(), want)
		}
	}
}

// killing kills one of two at the first call of a method.
type killing struct {
	*rig
	method string
	worked bool
	victim string
	killed bool
}

// try does a step until it succeeds, killing the victim meanwhile.
func (k *killing) try(step func(context.Context) error) {
	k.t.Helper()
	for range 5 {
		if err := k.runWithKill(step); err == nil {
			return
		} else if strings.Contains(err.Error(), "FailedPrecondition") {
			k.t.Fatalf("the driver was called out of order: %v", err)
		}
	}
	k.t.Fatal("the step does not succeed")
}

func (k *killing) runWithKill(step func(context.Context) error) error {
	if k.killed {
		return step(k.t.Context())
	}
	if k.victim == "driver" {
		k.driver.Die(k.method, k.worked)
		err := step(k.t.Context())
		k.killed = err != nil
		return err
	}
	until := make(chan struct{})
	k.driver.Stall(k.method, k.worked, until)
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	for {
		select {
		case err := <-done: // the method is not one of this step's
			return err
		default:
		}
		if calls := k.drivers.PendingCalls(); len(calls) == 1 && calls[0].Method == k.method &&
			k.driver.Request(k.method) != nil {
			break
		}
		runtimepkg.Gosched()
	}
	k.killed = true
	old := k.drivers
	k.start() // a new kubelet in its place
	old.DeRegisterPlugin(k.driver.Name, k.driver.Endpoint())
	k.register()
	close(until)
	return context.Canceled
}

// row: CSI-11
// A step that the driver does not answer is named with the driver, and with what is mounted for the
// Pod.
func TestAHangNamesTheDriverAndThePodsMounts(t *testing.T) {
	r := newRig(t)
	r.hangs, r.facts = time.Millisecond, make(chan journal.Fact, 8)
	r.start()
	r.register()
	r.mounts = []string{r.root + "/pods/a/volumes/kubernetes.io~csi/pv/mount", r.root + "/pods/b/volumes/x"}
	until := make(chan struct{})
	r.driver.Stall("NodePublishVolume", true, until)
	done := make(chan error, 1)
	go func() { _, err := r.MountVolumes(t.Context(), claiming("a")); done <- err }()
	var said journal.Waiting
	for fact := range r.facts {
		if w, ok := fact.(journal.Waiting); ok && strings.Contains(w.For, "set-up") {
			said = w
			break
		}
	}
	if want := "the CSI driver disk.example.com: set-up of volume v at " + r.root; !strings.HasPrefix(said.For, want) {
		t.Errorf("waits for %q, want %q…", said.For, want)
	}
	for _, want := range []string{"mount | grep a ", "now " + r.mounts[0], "the log of the driver's Pod"} {
		if !strings.Contains(said.Fix, want) {
			t.Errorf("the remedy is %q, want %q in it", said.Fix, want)
		}
	}
	if strings.Contains(said.Fix, r.mounts[1]) {
		t.Errorf("the remedy names another Pod's mounts: %q", said.Fix)
	}
	close(until)
	_ = <-done
}

// The SELinux mount option is refused by name where upstream would use it, and nowhere else.
func TestTheSELinuxMountOptionIsRefused(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name        string
		node, label bool
		driver      *bool
		policy      v1.PodSELinuxChangePolicy
		block       bool
		refused     bool
	}{
		{"a labelled Pod on a node with SELinux", true, true, &yes, "", false, true},
		{"one that asks for the option", true, true, &yes, v1.SELinuxChangePolicyMountOption, false, true},
		{"one that is labelled file by file", true, true, &yes, v1.SELinuxChangePolicyRecursive, false, false},
		{"a raw volume", true, true, &yes, "", true, false},
		{"a node without SELinux", false, true, &yes, "", false, false},
		{"a Pod without a label", true, false, &yes, "", false, false},
		{"a driver that wants no option", true, true, &no, "", false, false},
		{"a driver that says nothing", true, true, nil, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.selinux = c.node
			r.start()
			r.register()
			r.api.driver.Spec.SELinuxMount = c.driver
			pod := claiming("a")
			if c.label {
				pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{
					Level: "s0:c1,c2"}}
			}
			if c.policy != "" {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxChangePolicy: &c.policy}
			}
			if c.block {
				r.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
			}
			_, err := r.MountVolumes(t.Context(), pod)
			if got := err != nil && strings.Contains(err.Error(), "the SELinux mount option is not served: the "+
				"CSIDriver disk.example.com"); got != c.refused {
				t.Errorf("got %v, want a refusal: %t", err, c.refused)
			}
		})
	}
}
