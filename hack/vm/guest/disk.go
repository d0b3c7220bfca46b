package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const unusedImage = "registry.example/unused:1"

// diskShare is how much of the node's disk is left when it acts.
const diskShare = 20

// disk fills the loop file that all data of the node is on. An image that nobody uses goes first
// and brings enough; later the Pod that fills the disk goes, not the one that holds little.
func disk(ctx context.Context, n *node) error {
	if out, err := exec.Command("cp", programs+"/unused.tar", dataDir+"/images/").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	if err := n.waitImage(ctx, true); err != nil {
		return err
	}
	n.say("image %s is there; nobody uses it", unusedImage)
	fill := "i=0; while dd if=/dev/zero of=/scratch/$i bs=1M count=10 2>/dev/null; do i=$((i+1)); sleep 0.5; " +
		"done; exec sleep 9999"
	if err := n.start(ctx,
		workload{name: "keeper", image: busybox, scratchVolume: true,
			command: []string{"sh", "-c", "dd if=/dev/zero of=/scratch/x bs=1M count=20; exec sleep 9999"}},
		workload{name: "filler", image: busybox, scratchVolume: true, command: []string{"sh", "-c",
			fill}}); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go n.sampleDisk(stop)
	if err := n.waitImage(ctx, false); err != nil {
		return err
	}
	left, _ := diskLeft()
	n.expect(n.view.had(v1.NodeDiskPressure), "the node has shown DiskPressure")
	n.expect(running(n.view.pod("filler")), "image %s is collected before a Pod goes; %d %% are left", unusedImage,
		left)
	p, err := n.view.waitPod("filler", "ends", failed)
	if err != nil {
		return err
	}
	n.expect(p.Status.Reason == "Evicted" && strings.Contains(p.Status.Message, "ephemeral-storage"),
		"filler is evicted: %s %s", p.Status.Reason, p.Status.Message)
	n.unharmed("keeper")
	return n.view.wait("no pressure", func(v *view) bool { return len(v.pressure) == 0 })
}

// waitImage waits until the node's status lists the unused image, or does not.
func (n *node) waitImage(ctx context.Context, there bool) error {
	var err error
	poll(func() bool {
		var x *v1.Node
		x, err = n.api.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		is := err == nil && slices.ContainsFunc(x.Status.Images, func(i v1.ContainerImage) bool {
			return slices.Contains(i.Names, unusedImage)
		})
		if err == nil && is != there {
			err = fmt.Errorf("image %s: in the node's status %t, want %t", unusedImage, is, there)
		}
		return err == nil
	})
	return err
}

// diskLeft is what is left of the node's disk, in percent and MiB.
func diskLeft() (percent, mib int64) {
	var s unix.Statfs_t
	if err := unix.Statfs(dataDir, &s); err != nil || s.Blocks == 0 {
		return 0, 0
	}
	return int64(s.Bavail * 100 / s.Blocks), int64(s.Bavail) * s.Bsize >> 20
}

// sampleDisk says every five seconds what is left, and when that becomes less than the threshold.
func (n *node) sampleDisk(stop chan struct{}) {
	low := false
	for i := 0; ; i++ {
		percent, mib := diskLeft()
		is := percent < diskShare
		if i%25 == 0 || is != low {
			n.say("%d MiB of the disk are left, %d %%", mib, percent)
		}
		low = is
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
