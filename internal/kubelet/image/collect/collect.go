package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	units "github.com/docker/go-units"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/image"
)

// Period is how long lies between two collections, as upstream.
const Period = 5 * time.Minute

// Images is the part of CRI's image service that collecting needs.
type Images interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Containers is the part of CRI's runtime service that collecting needs.
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Recorder takes Kubernetes events.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Deps is what a Collector works with.
type Deps struct {
	Images     Images
	Containers Containers
	Named      func() []string                       // names of images that Pods of this node use or will use, image volumes among them; nil: none
	Disk       func(path string) (image.Disk, error) // of the file system path is on
	Recorder   Recorder                              // about Node
	Node       *v1.ObjectReference
	Thresholds image.Thresholds
	Removed    func(ctx context.Context, id string) // told of each image that went; may be nil
	Counted    func(reason string)                  // told why it went: age or space; may be nil
}

// Collector collects images. Its methods may be called side by side.
type Collector struct {
	d Deps

	mu       sync.Mutex
	seen     map[string]image.Stored // by id; Detected and LastUsed are kept from one look to the next
	failures int                     // collections in a row that failed
}

// New returns a Collector.
func New(d Deps) *Collector { return &Collector{d: d, seen: map[string]image.Stored{}} }

// Run collects every Period until ctx ends; not at all when the thresholds forbid it.
func (c *Collector) Run(ctx context.Context) {
	if c.d.Thresholds.High == 100 && c.d.Thresholds.MaxAge == 0 {
		return
	}
	// What was used before the kubelet came is as old as its first look.
	if _, _, err := c.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot list images for collection")
	}
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c.told(ctx, c.Collect(ctx, time.Now()))
	}
}

// told reports failures: the first in a row to the log only, as upstream does, because measures may not be there yet.
func (c *Collector) told(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.failures = 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	log := klog.FromContext(ctx)
	if c.failures++; c.failures == 1 {
		log.Error(err, "Image garbage collection failed once. Stats initialization may not have completed yet")
		return
	}
	log.Error(err, "Image garbage collection failed multiple times in a row")
	c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "ImageGCFailed", err.Error())
}

// Collect looks, decides and removes once.
func (c *Collector) Collect(ctx context.Context, now time.Time) error {
	disk, err := c.disk(ctx)
	if err != nil {
		return err
	}
	if disk.Capacity == 0 {
		c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "InvalidDiskCapacity", "invalid capacity 0 on image filesystem")
		return errors.New("invalid capacity 0 on image filesystem")
	}
	stored, used, err := c.look(ctx, now)
	if err != nil {
		return err
	}
	plan := image.Collect(now, image.Store{Disk: disk, Images: stored, InUse: func(id string) bool { return used[id] }}, c.d.Thresholds)
	freed, err := c.remove(ctx, plan.Remove)
	if err != nil {
		return err
	}
	if freed < plan.Wanted {
		c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "FreeDiskSpaceFailed", fmt.Sprintf(
			"Insufficient free disk space on the node's image filesystem (%.1f%% of %s used). Failed to free sufficient space by deleting unused images. Consider resizing the disk or deleting unused files.",
			100*float64(disk.Capacity-disk.Available)/float64(disk.Capacity), units.BytesSize(float64(disk.Capacity))))
		return fmt.Errorf("failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free", plan.Wanted, freed)
	}
	return nil
}

// Free removes every image that nothing uses, whatever its age: what a node short of disk does before it evicts. It returns the bytes freed.
func (c *Collector) Free(ctx context.Context) (int64, error) {
	now := time.Now()
	stored, used, err := c.look(ctx, now)
	if err != nil {
		return 0, err
	}
	// A full disk of no room, and no age: all that may go goes.
	plan := image.Collect(now.Add(time.Nanosecond), image.Store{
		Disk: image.Disk{Capacity: 1 << 50}, Images: stored, InUse: func(id string) bool { return used[id] },
	}, image.Thresholds{})
	return c.remove(ctx, plan.Remove)
}

func (c *Collector) remove(ctx context.Context, list []image.Stored) (int64, error) {
	var freed int64
	var errs []error
	for _, s := range list {
		klog.FromContext(ctx).Info("Removing image to free bytes", "imageID", s.ID, "size", s.Bytes)
		if err := c.d.Images.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: s.ID}); err != nil {
			errs = append(errs, err)
			continue
		}
		freed += s.Bytes
		c.mu.Lock()
		delete(c.seen, s.ID)
		c.mu.Unlock()
		if c.d.Counted != nil {
			c.d.Counted(c.why(s))
		}
		if c.d.Removed != nil {
			c.d.Removed(ctx, s.ID)
		}
	}
	if len(errs) > 0 {
		return freed, fmt.Errorf("wanted to free %d images, but freed %d bytes space with errors in image deletion: %w", len(list), freed, errors.Join(errs...))
	}
	return freed, nil
}

// why is upstream's word for the cause of an image's end.
func (c *Collector) why(s image.Stored) string {
	since := s.LastUsed
	if since.IsZero() {
		since = s.Detected
	}
	if age := c.d.Thresholds.MaxAge; age > 0 && time.Since(since) > age {
		return "age"
	}
	return "space"
}

func (c *Collector) disk(ctx context.Context) (image.Disk, error) {
	info, err := c.d.Images.ImageFsInfo(ctx)
	if err != nil {
		return image.Disk{}, fmt.Errorf("image file system: %w", err)
	}
	if len(info.GetImageFilesystems()) == 0 {
		return image.Disk{}, errors.New("image file system: the runtime names none")
	}
	path := info.ImageFilesystems[0].GetFsId().GetMountpoint()
	d, err := c.d.Disk(path)
	if err != nil {
		return image.Disk{}, fmt.Errorf("image file system %s: %w", path, err)
	}
	d.Available = min(d.Available, d.Capacity)
	return d, nil
}

// look lists the images and notes which are in use now.
func (c *Collector) look(ctx context.Context, now time.Time) (stored []image.Stored, used map[string]bool, err error) {
	images, err := c.d.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list of images: %w", err)
	}
	containers, err := c.d.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list of containers: %w", err)
	}
	names := map[string]bool{}
	for _, k := range containers {
		for _, n := range []string{k.GetImageId(), k.GetImageRef(), k.GetImage().GetImage()} {
			names[n] = true
		}
	}
	if c.d.Named != nil {
		for _, n := range c.d.Named() {
			names[full(n)] = true
		}
	}
	delete(names, "")
	used = map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	still := make(map[string]image.Stored, len(images))
	for _, i := range images {
		s, known := c.seen[i.GetId()]
		if !known {
			s.Detected = now
		}
		s.ID, s.Bytes, s.Pinned = i.GetId(), int64(i.GetSize()), i.GetPinned()
		if uses(names, i) {
			used[s.ID], s.LastUsed = true, now
		}
		still[s.ID] = s
		stored = append(stored, s)
	}
	c.seen = still
	return stored, used, nil
}

func uses(names map[string]bool, i *runtimeapi.Image) bool {
	return names[i.GetId()] || slices.ContainsFunc(append(slices.Clone(i.GetRepoTags()), i.GetRepoDigests()...), func(n string) bool { return names[n] || names[full(n)] })
}

// full is the name with registry, path and tag, as runtimes list it; what cannot be read stays as it is.
func full(name string) string {
	if long, err := image.Full(name); err == nil {
		return long
	}
	return name
}
