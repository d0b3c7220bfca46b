package csi_test

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

// A volume is waited for until the node's object has it in use and attached, not one of the two.
//
// row: CSI-04
func TestAVolumeIsWaitedForUntilInUseAndAttached(t *testing.T) {
	inUse := func(n *v1.Node) { n.Status.VolumesInUse = []v1.UniqueVolumeName{"vol"} }
	attached := func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "vol"}} }
	elsewhere := func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "other"}} }
	for _, c := range []struct {
		name string
		node []func(*v1.Node)
		want bool
	}{
		{"neither", nil, false}, {"in use", []func(*v1.Node){inUse}, false},
		{"attached", []func(*v1.Node){attached}, false},
		{"in use, another attached", []func(*v1.Node){inUse, elsewhere}, false},
		{"both", []func(*v1.Node){inUse, attached}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			a, done := csi.NewNodeAttachments(func() {}), make(chan error, 1)
			go func() { done <- a.WaitAttached(ctx, "vol") }()
			synctest.Wait()
			n := &v1.Node{}
			for _, set := range c.node {
				set(n)
			}
			a.NodeChanged(n)
			synctest.Wait()
			if got := len(done) > 0; got != c.want {
				t.Errorf("%s: got an end of waiting %t, want %t", c.name, got, c.want)
			}
			cancel()
			<-done
		})
	}
}
