package noderole

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
)

// reservedGroup is a cgroup of the node's own programs, and what is reserved for them.
type reservedGroup struct {
	key, title, name string // of enforceNodeAllocatable, of events, of the log
	cgroup           string
	list             map[string]string
}

// enforceReserved bounds the cgroups that enforceNodeAllocatable names by their reservation. They
// have to be there: nobody but their owner knows what belongs into them. mount is where cgroups
// are. Events and errors are upstream's; an error ends the start.
func (n *Role) enforceReserved(mount string, o kubeletresource.Options, events record.EventRecorder) error {
	c := n.config
	node := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.instance.NodeName,
		UID: types.UID(n.instance.NodeName)}
	for _, g := range []reservedGroup{
		{"system-reserved", "System Reserved", "system reserved", c.SystemReservedCgroup, c.SystemReserved},
		{"kube-reserved", "Kube Reserved", "kube reserved", c.KubeReservedCgroup, c.KubeReserved},
	} {
		whole := slices.Contains(c.EnforceNodeAllocatable, g.key)
		compressible := slices.Contains(c.EnforceNodeAllocatable, g.key+"-compressible")
		if !whole && !compressible {
			continue
		}
		title := g.title
		if compressible {
			title += " Compressible"
		}
		if err := g.enforce(mount, compressible, o); err != nil {
			message := fmt.Sprintf("Failed to enforce %s Cgroup Limits on %q: %v", title, g.cgroup, err)
			events.Event(node, v1.EventTypeWarning, "FailedNodeAllocatableEnforcement", message)
			return errors.New(message)
		}
		events.Eventf(node, v1.EventTypeNormal, "NodeAllocatableEnforced", "Updated limits on %s cgroup %v", g.name,
			g.cgroup)
	}
	return nil
}

// enforce writes the values.
func (g reservedGroup) enforce(mount string, compressible bool, o kubeletresource.Options) error {
	path := "/" + strings.Trim(g.cgroup, "/")
	if o.Driver == kubeletresource.Systemd && !strings.HasSuffix(path, ".slice") {
		path += ".slice"
	}
	if g.list == nil {
		return fmt.Errorf("%q cgroup is not configured properly", path)
	}
	tree, err := cgroup.Open(cgroup.Options{Mount: mount, Root: path})
	if err != nil {
		return err
	}
	if !tree.Exists(path) {
		return fmt.Errorf("cgroup %s does not exist: make it before the kubelet starts", path)
	}
	list := kubeletresource.ParseQuantities(g.list)
	return tree.Update(path, cgroup.Values(kubeletresource.ForReserved(list, compressible, o)))
}
