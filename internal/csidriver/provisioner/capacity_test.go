package provisioner

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var here = Options{Driver: "d.example.com", NodeName: "n1", TopologyKey: "d/node"}

func reported(node, uid, class string, bytes int64) *storagev1.CSIStorageCapacity {
	o := here
	o.NodeName = node
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(uid)}}
	return newCapacities(o, nil).object(n, class, bytes)
}

func TestCapacitiesOfTheNodeFollowItsClasses(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name                   string
		is, want               []*storagev1.CSIStorageCapacity
		create, update, remove []string
	}{
		{name: "nothing", create: nil},
		{name: "a new class", want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)},
			create: []string{"a 1Gi"}},
		{name: "the same", is: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)},
			want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)}},
		{name: "a hundredth less", is: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)},
			want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib-gib/100)}},
		{name: "more than a hundredth less", is: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)},
			want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib/2)}, update: []string{"a 512Mi"}},
		{name: "the first bytes after none", is: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", 0)},
			want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", 4096)}, update: []string{"a 4Ki"}},
		{name: "a Node that was made anew", is: []*storagev1.CSIStorageCapacity{reported("n1", "old", "a", gib)},
			want: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)}, update: []string{"a 1Gi"}},
		{name: "a class that is gone", is: []*storagev1.CSIStorageCapacity{reported("n1", "u", "a", gib)},
			remove: []string{"a 1Gi"}},
		{name: "another node's", is: []*storagev1.CSIStorageCapacity{reported("n2", "u", "a", gib)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var is []storagev1.CSIStorageCapacity
			for _, o := range c.is {
				is = append(is, *o)
			}
			p := decideCapacities(here, is, c.want)
			for what, pair := range map[string][2][]string{"creates": {names(p.create), c.create},
				"updates": {names(p.update), c.update}, "removes": {names(p.remove), c.remove}} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s %v, want %v", what, pair[0], pair[1])
				}
			}
		})
	}
}

func names(all []*storagev1.CSIStorageCapacity) (out []string) {
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s %s", c.StorageClassName, c.Capacity))
	}
	return out
}

// The object is found by the scheduler on the node's topology, and goes with the Node.
func TestACapacityIsOfItsNode(t *testing.T) {
	o := reported("n1", "u", "a", 1)
	if o.NodeTopology.MatchLabels["d/node"] != "n1" || o.OwnerReferences[0].UID != "u" ||
		o.OwnerReferences[0].Kind != "Node" {
		t.Errorf("got %+v, want it of Node n1", o)
	}
	if other := reported("n2", "u", "a", 1); other.Name == o.Name || reported("n1", "u", "b", 1).Name == o.Name {
		t.Errorf("two capacities are called %s", o.Name)
	}
}
