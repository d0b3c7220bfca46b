package critest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/critest"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
)

// The test binary is containerd when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "containerd" {
		os.Exit(containerd.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const busybox = "docker.io/library/busybox:1.28"

// dialContainerd starts the containerd Gantry brings along, with Gantry's network, and cleans up
// after it.
func dialContainerd(t testing.TB) critest.Target {
	bin, dir := binaries.Dir(t), t.TempDir()
	id := instance.ID(dir)
	cfg := containerd.Config{DataDir: dir, BinDir: bin}
	net := network.Config{
		DataDir: dir, BinDir: filepath.Join(bin, "cni"), Bridge: "gt" + id,
		PodCIDR: fmt.Sprintf("10.197.%d.0/24", (int(id[0])*7+int(id[1]))%200+1),
	}
	groups, err := cgroup.Open(cgroup.Options{Root: "/gantry-test-" + id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{containerd.Clean(context.Background(), cfg),
			network.Clean(context.Background(), net)} {
			if err != nil {
				t.Error(err)
			}
		}
		if groups.Exists(groups.Root()) {
			if err := groups.Remove(groups.Root()); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := network.Ensure(t.Context(), net); err != nil {
		t.Fatal(err)
	}
	child, err := containerd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Close)
	archive := filepath.Join(t.TempDir(), "busybox.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), busybox)); err != nil {
		t.Fatal(err)
	}
	if _, err := child.ImportImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	c, err := cri.Dial(t.Context(), cri.Options{Endpoint: child.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return critest.Target{
		Runtime: c.Runtime(), Images: c.Images(), Events: c.Events, Image: busybox, Dir: filepath.Join(dir, "logs"),
		Adjust: func(t testing.TB, config *runtimeapi.PodSandboxConfig) {
			config.Linux.CgroupParent = groups.Root() + "/" + config.Metadata.Name
			if err := groups.Ensure(config.Linux.CgroupParent, cgroup.Values{}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// row: CRI-01
// row: CRI-16
// row: CRI-17
func TestContainerd(t *testing.T) { critest.Run(t, dialContainerd) }
