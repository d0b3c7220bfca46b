package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
)

// nodeAllocatableUpdatePeriod is how often a driver is asked how many volumes the node can have; 0
// is never again.
func nodeAllocatableUpdatePeriod(obj *storagev1.CSIDriver) time.Duration {
	if obj == nil || obj.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*obj.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
}

// limitsToUpdate are the drivers to ask now, and how long nobody else is to be asked; 0 is until
// something changes. asked is when each registered driver was asked last.
func limitsToUpdate(now time.Time, asked map[string]time.Time, period func(string) time.Duration) (due []string,
	wait time.Duration) {
	for name, last := range asked {
		p := period(name)
		if p == 0 {
			continue
		}
		left := p - now.Sub(last)
		if left <= 0 {
			due, left = append(due, name), p
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return due, wait
}

// LimitUpdater keeps what the CSINode says of how many volumes drivers can attach: each is asked as
// often as its CSIDriver's nodeAllocatableUpdatePeriodSeconds says.
type LimitUpdater struct {
	Drivers *Drivers
	// Driver is the CSIDriver object; nil when there is none.
	Driver func(name string) *storagev1.CSIDriver

	wake chan struct{}
	once sync.Once
}

// Changed tells that a CSIDriver changed, or a driver registered.
func (u *LimitUpdater) Changed() {
	u.once.Do(u.init)
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *LimitUpdater) init() { u.wake = make(chan struct{}, 1) }

// Run asks drivers until ctx ends. One that hangs keeps no other.
func (u *LimitUpdater) Run(ctx context.Context) {
	u.once.Do(u.init)
	asked := map[string]time.Time{}
	for {
		now := time.Now()
		registered := map[string]time.Time{}
		for _, name := range u.Drivers.Names() {
			registered[name] = now // when it registered it said so
			if last, known := asked[name]; known {
				registered[name] = last
			}
		}
		asked = registered
		due, wait := limitsToUpdate(now, asked, func(name string) time.Duration {
			return nodeAllocatableUpdatePeriod(u.Driver(name))
		})
		for _, name := range due {
			asked[name] = now
			go func() {
				if err := u.Drivers.UpdateCSINode(ctx, name); err != nil && ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "The CSINode is not updated", "driver", name)
				}
			}()
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-u.wake:
		case <-ctx.Done():
			return
		}
	}
}

// UpdateCSINode asks a driver about this node again, and tells the CSINode.
func (d *Drivers) UpdateCSINode(ctx context.Context, name string) error {
	x, err := d.find(name)
	if err != nil {
		return err
	}
	info, err := x.node.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("failed to get NodeGetInfo from driver %q: %w", name, err)
	}
	return d.info.UpdateCSIDriver(ctx, name, info)
}

// isExhausted tells whether a volume is not attached because the node can have no more.
func isExhausted(va *storagev1.VolumeAttachment) bool {
	e := va.Status.AttachError
	return e != nil && e.ErrorCode != nil && *e.ErrorCode == int32(codes.ResourceExhausted)
}

// limitExceeded brings the CSINode up to date when an attacher said that the node can have no more
// volumes, if the driver's limit may change: the scheduler then sends no more Pods here.
func (p Plugin) limitExceeded(ctx context.Context, obj *storagev1.CSIDriver, driver, attachment string) bool {
	if nodeAllocatableUpdatePeriod(obj) == 0 {
		return false
	}
	va, err := p.API.GetVolumeAttachment(ctx, attachment)
	if err != nil || !isExhausted(va) {
		return false
	}
	if err := p.Drivers.UpdateCSINode(ctx, driver); err != nil {
		klog.FromContext(ctx).Error(err, "The CSINode is not updated", "driver", driver)
	}
	return true
}
