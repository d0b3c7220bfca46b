package volumemanager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	mountutils "k8s.io/mount-utils"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// missingReportInterval is how long upstream waits for a Pod's volumes before it says which are
// missing, and then again.
const missingReportInterval = 2*time.Minute + 3*time.Second

// unprocessedReportInterval is how often upstream says that it does not understand a volume: with
// each sync of the Pod. The first time it gives the claim a moment to come.
const unprocessedReportInterval = 10 * time.Second

// hangThreshold is after what time a step is said to hang.
func (f *Manager) hangThreshold() time.Duration { return cmp.Or(f.d.HangThreshold, 10*time.Second) }

// failure is a step that did not succeed.
type failure struct {
	step volume.Step
	err  error
	took time.Duration // until it failed
}

// limitExceeded is upstream's reason of a Pod whose volumes the node cannot have.
const limitExceeded = "VolumeAttachmentLimitExceeded"

// rejectIfFull ends a Pod, in upstream's words, when the node can have no more volumes: a
// controller makes another, which the scheduler places elsewhere.
func (f *Manager) rejectIfFull(pod *v1.Pod, s *podVolumes, full []string) {
	if len(full) == 0 || f.d.Reject == nil {
		return
	}
	slices.Sort(full)
	message := fmt.Sprintf("Node has reached its volume attachment limit, rejecting pod. unmounted volumes=%v, "+
		"unattached volumes=%v, failed to process volumes=[]: context deadline exceeded", f.missing(pod, s), full)
	f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, limitExceeded, message)
	f.d.Reject(pod.UID, limitExceeded, "Pod was rejected: "+message)
}

// summarize speaks of all volumes together: those that could not even be understood, and, from time
// to time, those that are missing for long.
func (f *Manager) summarize(pod *v1.Pod, s *podVolumes, out *reason.Refusal, unprocessed []failure) *reason.Refusal {
	if out == nil && len(unprocessed) == 0 {
		s.since, s.unprocessedAt = time.Time{}, time.Time{}
		return nil
	}
	missing := f.missing(pod, s)
	sentence := func(names []string, why string) string {
		return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed "+
			"to process volumes=%v: %s", missing, names, why)
	}
	report := func(text string) {
		f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, string(reason.FailedMount), text)
	}
	now := time.Now()
	switch {
	case len(unprocessed) > 0:
		var names, causes []string
		for _, b := range unprocessed {
			names, causes = append(names, b.step.Name), append(causes, b.err.Error())
		}
		slices.Sort(names)
		text := sentence(names, strings.Join(causes, ", "))
		switch {
		case s.since.IsZero():
			s.since = now
		case now.Sub(s.unprocessedAt) >= unprocessedReportInterval:
			report(text)
			s.unprocessedAt = now
		}
		out = merge(out, &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: text,
			Fix: remedy(unprocessed[0].step.Volume, unprocessed[0].err)})
	case s.since.IsZero():
		s.since = now
	case now.Sub(s.since) >= missingReportInterval:
		report(sentence(nil, "context deadline exceeded"))
		s.since = now
	}
	return out
}

// failureRefusal words a failure of a volume that was understood.
func (f *Manager) failureRefusal(pod *v1.Pod, s *podVolumes, b failure) *reason.Refusal {
	what, why := failureEvent(b)
	name := b.step.Name
	if s := (specError{}); errors.As(b.err, &s) {
		name = s.name
	}
	text := fmt.Sprintf("%s for volume %q : %v", what, name, b.err)
	f.d.Recorder.Event(events.RefOf(pod, ""), v1.EventTypeWarning, why, text)
	f.recordFailure(pod, s, b)
	return &reason.Refusal{Code: reason.FailedMount, By: "kubelet/volume", Detail: text,
		Fix: remedy(b.step.Volume, b.err)}
}

// failureEvent is upstream's of a failure: what failed, and the reason of the event.
func failureEvent(b failure) (what, why string) {
	if b.step.Verb == volume.TearDown {
		return "UnmountVolume.TearDown failed", string(reason.FailedMount)
	}
	part, block := volume.PartError{Part: volume.MountForPod}, specError{}
	errors.As(b.err, &part)
	if part.Part == volume.ExpandInUse {
		return "NodeExpandVolume.NodeExpandVolume failed", "VolumeResizeFailed"
	}
	if errors.As(b.err, &block) && block.block {
		return map[volume.Part]string{
			volume.WaitForAttach: "MapVolume.WaitForAttach failed",
			volume.MountDevice:   "MapVolume.SetUpDevice failed",
			volume.MountForPod:   "MapVolume.MapPodDevice failed",
			volume.Expanding:     "MapVolume.MarkVolumeAsMounted failed while expanding volume",

			volume.EvalHostSymlinks: "MapVolume.EvalHostSymlinks failed",
			volume.MapBlockVolume:   "MapVolume.MapBlockVolume failed",
		}[part.Part], "FailedMapVolume"
	}
	return map[volume.Part]string{
		volume.WaitForAttach: "MountVolume.WaitForAttach failed",
		volume.MountDevice:   "MountVolume.MountDevice failed",

		volume.MountOptionSupport: "MountVolume.MountOptionSupport check failed",

		volume.MountForPod: "MountVolume.SetUp failed",
		volume.Expanding:   "MountVolume.Setup failed while expanding volume",
	}[part.Part], string(reason.FailedMount)
}

// recordFailure makes a failure a fact when it says something new.
func (f *Manager) recordFailure(pod *v1.Pod, s *podVolumes, b failure) {
	if text := b.err.Error(); s.reported[b.step.Name] != text {
		s.reported[b.step.Name] = text
		kind := "unknown"
		if b.step.Volume != nil {
			kind = volume.Kind(b.step.Volume)
		}
		f.put(pod, journal.VolumeWaiting{
			Volume: b.step.Name, Type: kind, Message: text, Fix: remedy(b.step.Volume, b.err),
			Took: journal.Took(b.took), Unmount: b.step.Verb == volume.TearDown,
		})
	}
}

// recordMismatch tells of a PersistentVolume whose device has another file system than it names.
func (f *Manager) recordMismatch(pv *v1.PersistentVolume, err error) {
	mount := mountutils.MountError{}
	if pv != nil && errors.As(err, &mount) && mount.Type == mountutils.FilesystemMismatch {
		f.d.Recorder.Event(pv, v1.EventTypeWarning, "FailedMountOnFilesystemMismatch",
			fmt.Sprintf("MountVolume failed for volume %q : %v", pv.Name, err))
	}
}

// missing are the names of the volumes that are not ready.
func (f *Manager) missing(pod *v1.Pod, s *podVolumes) []string {
	var out []string
	for _, v := range volume.UsedVolumes(pod) {
		if _, ok := s.ready[v.Name]; !ok {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return out
}

func remedy(v *v1.Volume, err error) string {
	var u volume.UnsupportedType
	var part volume.PartError
	text := err.Error()
	switch {
	case errors.As(err, &u):
		return u.Fix
	case errors.As(err, &part) && part.Part == volume.WaitForAttach:
		return "look at the volume's VolumeAttachment and at who attaches volumes of its driver: kubectl get " +
			"volumeattachments"
	case errors.As(err, &part) && part.Part == volume.MapBlockVolume:
		return "look at the loop devices of the node, of which one keeps the volume's device open: losetup -l"
	case errors.As(err, &part) && part.Part == volume.MountOptionSupport:
		return "take mountOptions out of the PersistentVolume: its type is not mounted"
	case errors.As(err, &part):
		return "look at the driver of the volume on this node"
	case strings.Contains(text, "non-existent"):
		return "add the key to the object, or correct the volume's items, or mark it optional"
	case strings.Contains(text, "waiting for signer"):
		return "see whether that signer runs and is called so: kubectl describe podcertificaterequests"
	case strings.Contains(text, "PodCertificateRequest"):
		return "the signer's answer is its last for this Pod: change podCertificate in the template as its words " +
			"ask, and make the Pod anew"
	case v != nil && v.HostPath != nil:
		return "create the path on the node, or correct path and type"
	case v != nil && v.NFS != nil:
		return "look at server and path of the volume, and whether this node reaches the server and has the mount " +
			"helper (Debian: nfs-common)"
	case v != nil && podutil.IsClaim(v):
		return "create the claim, or look at what keeps it from being bound: kubectl describe pvc"
	case strings.HasSuffix(text, "not found"):
		return "create the object in the Pod's namespace, or mark the volume optional"
	}
	return ""
}

func merge(all, one *reason.Refusal) *reason.Refusal {
	if all == nil {
		return one
	}
	all.Detail += "; " + one.Detail
	return all
}

// slowStep is a step that may hang.
type slowStep struct {
	step, path string
	driver     string // that does it; empty: the kernel
}

// withHangReport runs a step and says by name when it hangs: who is waited for, what, where, since
// when, and what is mounted for the Pod.
func (f *Manager) withHangReport(ref journal.Ref, s slowStep, step func() error) error {
	startedAt, threshold := time.Now(), f.hangThreshold()
	timer := time.AfterFunc(threshold, func() {
		klog.Background().Info("A step of a volume hangs", "pod", klog.KRef(ref.Namespace, ref.Name), "podUID", ref.UID,
			"step", s.step, "path", s.path, "driver", s.driver, "since", startedAt)
		who, fix := "the kernel", "look at what is mounted there (findmnt -R "+s.path+"): a file server that does not "+
			"answer keeps its clients waiting"
		if s.driver != "" {
			who = "the CSI driver " + s.driver
			fix = fmt.Sprintf("look at the log of the driver's Pod on this node, and start that Pod again if it does "+
				"not answer; mount | grep %s shows what is mounted for this Pod", ref.UID)
			if at, err := f.d.Mounts.MountPoints(f.podDir(types.UID(ref.UID))); err == nil {
				fix += ", now " + mountList(at)
			}
		}
		f.d.Journal.Put(ref, journal.Waiting{
			For: fmt.Sprintf("%s: %s at %s takes longer than %s", who, s.step, s.path, threshold), Since: startedAt,
			Next: "goes on when it answers; other Pods are not kept", Fix: fix,
		})
	})
	defer timer.Stop()
	return step()
}

// mostMounts is how many mount points are named.
const mostMounts = 10

// mountList names mount points, the first ones of many.
func mountList(at []string) string {
	switch n := len(at); {
	case n == 0:
		return "nothing"
	case n > mostMounts:
		return fmt.Sprintf("%s and %d more", strings.Join(at[:mostMounts], ", "), n-mostMounts)
	}
	return strings.Join(at, ", ")
}

// csiDriver is the driver of a CSI volume; empty for volumes of other kinds.
func csiDriver(d volume.VolumeData) string {
	if d.PluginName != "csi" {
		return ""
	}
	return d.DriverName
}
