package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Storage is what the API and this machine say of CSI volumes. Lists are whole.
type Storage struct {
	CSINodes    []storagev1.CSINode
	Attachments []storagev1.VolumeAttachment
	Volumes     []v1.PersistentVolume
	Pending     []v1.Pod      // of phase Pending
	Unhealthy   []v1.Pod      // of which a volume is not well, by their status
	Local       *LocalStorage // nil: this machine is no node, or may not be looked at
}

// LocalStorage is what is found on this machine for the node that it is.
type LocalStorage struct {
	Node    string
	Sockets []Socket
	PodDirs []PodDir // directories of Pods that the API does not know
	Loops   []LoopDevice
}

// Socket is one of the kubelet's plugins_registry.
type Socket struct {
	Path   string
	Driver string // the CSI driver's name; empty: it did not say, or is another plugin
	Err    error  // nobody answers
}

// PodDir is the directory of a Pod that is no more.
type PodDir struct {
	Path   string
	Age    time.Duration
	Mounts []string // what is mounted below
}

// LoopDevice is one of a local volume's image.
type LoopDevice struct{ Device, Image, Why string }

// Ages from which on somebody should look.
const (
	slowDriverCall = 30 * time.Second // of a call
	slowAttachment = 2 * time.Minute  // of a volume on its way to a node or from it
	oldPodDir      = 5 * time.Minute  // the kubelet's cleaning up takes seconds
)

// drivers names CSI drivers that do not answer their kubelet, whose registration is another than
// the API says, and that are not there for Pods which wait.
func drivers(f Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		for _, c := range n.Calls {
			age := f.Now.Sub(c.Since)
			if age < slowDriverCall {
				continue
			}
			x := Finding{About: n.Name, Level: Problem, Text: fmt.Sprintf("CSI driver %s has not answered %s for %s: "+
				"Pods wait for it", c.Driver, c.Method, age.Round(time.Second)),
				Fix: "read what its Pod there says, and start it anew: " + podsOf(n.Name)}
			if strings.HasSuffix(c.Method, "Health") {
				x.Level = Warning
				x.Text = strings.Replace(x.Text, "Pods wait for it", "how its volumes are is not known", 1)
			}
			out = append(out, x)
		}
	}
	if f.Storage == nil {
		return out
	}
	for _, n := range f.Nodes {
		if n.Registered != nil {
			out = append(out, registrations(n, f.Storage)...)
		}
	}
	return append(out, sockets(f)...)
}

func podsOf(node string) string {
	return "kubectl get pods -A -o wide --field-selector spec.nodeName=" + node
}

// registrations compares what the kubelet registered with the CSINode, and names the Pods that wait
// for a driver which is not registered.
func registrations(n Node, s *Storage) []Finding {
	var out []Finding
	var listed []string
	for _, c := range s.CSINodes {
		for _, d := range c.Spec.Drivers {
			if c.Name == n.Name {
				listed = append(listed, d.Name)
			}
		}
	}
	waiting := waitingPods(n.Name, s)
	for _, d := range listed {
		if !slices.Contains(n.Registered, d) && waiting[d] == nil {
			out = append(out, Finding{About: n.Name, Level: Problem, Text: fmt.Sprintf("the CSINode has driver %s, "+
				"and no such driver is registered with the kubelet: Pods that use it are placed there, and wait", d),
				Fix: "start the driver's Pod there anew, or its node-driver-registrar: " + podsOf(n.Name)})
		}
	}
	for _, d := range n.Registered {
		if !slices.Contains(listed, d) {
			out = append(out, Finding{About: n.Name, Level: Problem, Text: fmt.Sprintf("CSI driver %s is registered "+
				"with the kubelet, and the CSINode does not have it: nothing is attached or provisioned there", d),
				Fix: "start the driver's Pod there anew, so that it registers again; the kubelet's log says why the " +
					"CSINode could not be written: " + podsOf(n.Name)})
		}
	}
	for _, d := range sortedNames(waiting) {
		if !slices.Contains(n.Registered, d) {
			out = append(out, Finding{About: n.Name, Level: Problem, Text: fmt.Sprintf("%d Pods wait for CSI driver "+
				"%s, which is not registered there: %s", len(waiting[d]), d, some(waiting[d])),
				Fix: "see why the driver's Pod there does not run (the node is not to blame, other Pods start): " +
					podsOf(n.Name)})
		}
	}
	return out
}

// waitingPods are the names of a node's Pods that have not started yet, by the driver of a volume.
func waitingPods(node string, s *Storage) map[string][]string {
	byClaim := map[string]string{}
	for _, v := range s.Volumes {
		if v.Spec.CSI != nil && v.Spec.ClaimRef != nil {
			byClaim[v.Spec.ClaimRef.Namespace+"/"+v.Spec.ClaimRef.Name] = v.Spec.CSI.Driver
		}
	}
	out := map[string][]string{}
	for _, p := range s.Pending {
		if p.Spec.NodeName != node {
			continue
		}
		for _, v := range p.Spec.Volumes {
			d := ""
			switch {
			case v.CSI != nil:
				d = v.CSI.Driver
			case v.PersistentVolumeClaim != nil:
				d = byClaim[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
			case v.Ephemeral != nil:
				d = byClaim[p.Namespace+"/"+p.Name+"-"+v.Name]
			}
			if name := p.Namespace + "/" + p.Name; d != "" && !slices.Contains(out[d], name) {
				out[d] = append(out[d], name)
			}
		}
	}
	return out
}

func sortedNames(m map[string][]string) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// some are the first names of a list.
func some(names []string) string {
	const most = 5
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}

// sockets looks at this machine's registration sockets.
func sockets(f Facts) []Finding {
	l := f.Storage.Local
	if l == nil {
		return nil
	}
	var out []Finding
	for _, s := range l.Sockets {
		if s.Err != nil {
			out = append(out, Finding{About: s.Path, Level: Problem,
				Text: fmt.Sprintf("nobody answers at this registration socket: %v", s.Err),
				Fix: "start the plugin that made it anew; if it is gone for good, remove the socket: rm " +
					s.Path})
			continue
		}
		for _, n := range f.Nodes {
			if n.Name == l.Node && s.Driver != "" && n.Registered != nil && !slices.Contains(n.Registered, s.Driver) {
				out = append(out, Finding{About: s.Path, Level: Problem,
					Text: fmt.Sprintf("CSI driver %s answers there, and the kubelet has not registered it", s.Driver),
					Fix: "the kubelet's log and that of the node-driver-registrar say why; start the driver's Pod " +
						"anew: " + podsOf(n.Name)})
			}
		}
	}
	return out
}

// attachments names VolumeAttachments whose node or PersistentVolume is gone, and those that take
// long.
func attachments(f Facts) []Finding {
	if f.Storage == nil || len(f.Nodes) == 0 {
		return nil
	}
	nodes, volumes := map[string]bool{}, map[string]bool{}
	for _, n := range f.Nodes {
		nodes[n.Name] = true
	}
	for _, v := range f.Storage.Volumes {
		volumes[v.Name] = true
	}
	var out []Finding
	for _, a := range f.Storage.Attachments {
		name := a.Spec.Source.PersistentVolumeName
		lost := name != nil && !volumes[*name]
		if found := attachment(a, f.Now, !nodes[a.Spec.NodeName], lost); found != nil {
			out = append(out, *found)
		}
	}
	return out
}

func attachment(a storagev1.VolumeAttachment, now time.Time, nodeGone, volumeGone bool) *Finding {
	f := &Finding{About: "volumeattachment/" + a.Name, Level: Problem}
	volume := ""
	if a.Spec.Source.PersistentVolumeName != nil {
		volume = *a.Spec.Source.PersistentVolumeName
	}
	attacher := "read what the external-attacher of " + a.Spec.Attacher + " says, and whether it runs: " +
		"kubectl get pods -A -o wide"
	force := "; once the storage has it detached: kubectl patch volumeattachment " + a.Name +
		` --type=merge -p '{"metadata":{"finalizers":null}}'`
	var detach, attach string
	if e := a.Status.DetachError; e != nil {
		detach = ": " + e.Message
	}
	if e := a.Status.AttachError; e != nil {
		attach = ": " + e.Message
	}
	switch {
	case a.DeletionTimestamp != nil && now.Sub(a.DeletionTimestamp.Time) >= slowAttachment:
		f.Text = fmt.Sprintf("volume %s is being detached from node %s for %s%s", volume, a.Spec.NodeName,
			now.Sub(a.DeletionTimestamp.Time).Round(time.Second), detach)
		f.Fix = attacher + force
	case a.DeletionTimestamp != nil:
		return nil
	case nodeGone:
		f.Text = fmt.Sprintf("node %s does not exist, and volume %s is attached to it: no other node gets it",
			a.Spec.NodeName, volume)
		f.Fix = "make sure that the machine is off, then: kubectl delete volumeattachment " + a.Name
	case volumeGone:
		f.Text = fmt.Sprintf("PersistentVolume %s does not exist, and is attached to node %s", volume, a.Spec.NodeName)
		f.Fix = "kubectl delete volumeattachment " + a.Name + force
	case !a.Status.Attached && now.Sub(a.CreationTimestamp.Time) >= slowAttachment:
		f.Text = fmt.Sprintf("volume %s is being attached to node %s for %s%s", volume, a.Spec.NodeName,
			now.Sub(a.CreationTimestamp.Time).Round(time.Second), attach)
		f.Fix = attacher
	default:
		return nil
	}
	return f
}

// leftovers names what Pods and volumes that are no more left on this machine.
func leftovers(f Facts) []Finding {
	if f.Storage == nil || f.Storage.Local == nil {
		return nil
	}
	var out []Finding
	for _, d := range f.Storage.Local.PodDirs {
		if d.Age < oldPodDir {
			continue
		}
		x := Finding{About: d.Path, Level: Warning,
			Text: fmt.Sprintf("no such Pod is known, and its directory last changed %s ago", d.Age.Round(time.Minute)),
			Fix: "the kubelet removes it when the Pod has ended and its volumes are unmounted; its log says what " +
				"keeps it"}
		if len(d.Mounts) > 0 {
			x.Level = Problem
			x.Text += "; mounted there: " + some(slices.Clone(d.Mounts))
			x.Fix = "start the volume's driver, then the kubelet unmounts it; if the driver is gone for good: umount " +
				strings.Join(d.Mounts, " ")
		}
		out = append(out, x)
	}
	for _, l := range f.Storage.Local.Loops {
		out = append(out, Finding{About: l.Device, Level: Warning, Text: fmt.Sprintf("is a device of %s: %s", l.Image,
			l.Why), Fix: "losetup -d " + l.Device})
	}
	return out
}
