package resource

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	pods       = "kubepods"
	burstable  = "burstable"
	besteffort = "besteffort"
)

// CgroupParent is the Pod's cgroup in the form CRI's cgroup_parent takes: a path with the cgroupfs
// driver, the name of the slice with systemd.
func (o Options) CgroupParent(pod *v1.Pod) string {
	p := o.PodPath(pod)
	if o.Driver == Systemd {
		return path.Base(p)
	}
	return p
}

// PodPath is the Pod's cgroup as a path in the hierarchy, whatever the driver.
func (o Options) PodPath(pod *v1.Pod) string { return o.PodPathOf(QOS(pod), pod.UID) }

// PodPathOf is PodPath for a Pod of which only class and uid are known.
func (o Options) PodPathOf(class v1.PodQOSClass, uid types.UID) string {
	return o.join(append(qosCgroup(class), "pod"+string(uid)))
}

// RootCgroup is the cgroup that everything of the node is in: Root as the driver spells it, or that
// of all Pods when there is no Root.
func (o Options) RootCgroup() string {
	if o.Root == "" {
		return o.PodsPath()
	}
	return o.join(nil)
}

// PodsPath is the cgroup that holds all Pods.
func (o Options) PodsPath() string { return o.join([]string{pods}) }

// QOSPath is the cgroup that holds the Pods of a class; that of Guaranteed is PodsPath itself.
func (o Options) QOSPath(class v1.PodQOSClass) string { return o.join(qosCgroup(class)) }

// Tree lists the cgroups that must be there before the first Pod, parents first.
func (o Options) Tree() []string {
	return []string{o.PodsPath(), o.QOSPath(v1.PodQOSBurstable), o.QOSPath(v1.PodQOSBestEffort)}
}

// UIDOf reads the Pod's uid from the last element of its cgroup path; ok is false when it is none
// of ours.
func (o Options) UIDOf(cgroup string) (uid types.UID, ok bool) {
	name := path.Base(cgroup)
	if o.Driver == Systemd {
		name = strings.TrimSuffix(name, ".slice")
		name = strings.ReplaceAll(name[strings.LastIndexByte(name, '-')+1:], "_", "-")
	}
	id, ok := strings.CutPrefix(name, "pod")
	return types.UID(id), ok && id != ""
}

func qosCgroup(class v1.PodQOSClass) []string {
	switch class {
	case v1.PodQOSBurstable:
		return []string{pods, burstable}
	case v1.PodQOSBestEffort:
		return []string{pods, besteffort}
	}
	return []string{pods}
}

func (o Options) join(names []string) string {
	if root := strings.Trim(o.Root, "/"); root != "" {
		names = append(strings.Split(root, "/"), names...)
	}
	if o.Driver != Systemd {
		return "/" + path.Join(names...)
	}
	return sliceName(names)
}

// sliceName spells a path in systemd's way: each element repeats its parents' names, joined by
// dashes, so a dash inside a name becomes an underscore.
func sliceName(names []string) string {
	p, whole := "/", ""
	for _, n := range names {
		n = strings.ReplaceAll(n, "-", "_")
		if whole != "" {
			whole += "-"
		}
		whole += n
		p = path.Join(p, whole+".slice")
	}
	return p
}
