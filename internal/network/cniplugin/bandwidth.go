package cniplugin

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// bandwidthLimits is what the annotations kubernetes.io/ingress-bandwidth and egress-bandwidth say:
// bits each second, and bits at once. Ingress is what comes to the Pod.
type bandwidthLimits struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// shape holds the Pod to its bandwidth, each way where packets enter its link: no further device is
// needed.
func (b bandwidthLimits) shape(sandbox netns.NsHandle, host netlink.Link, inside string) error {
	if b.IngressRate > 0 {
		if err := netlink.QdiscReplace(newTokenBucket(host, b.IngressRate, b.IngressBurst)); err != nil {
			return fmt.Errorf("limit what comes to the Pod to %d bits each second: %w", b.IngressRate, err)
		}
	}
	if b.EgressRate == 0 {
		return nil
	}
	h, err := netlink.NewHandleAt(sandbox, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in the sandbox: %w", err)
	}
	defer h.Close()
	link, err := h.LinkByName(inside)
	if err != nil {
		return fmt.Errorf("interface %s in the sandbox: %w", inside, err)
	}
	if err := h.QdiscReplace(newTokenBucket(link, b.EgressRate, b.EgressBurst)); err != nil {
		return fmt.Errorf("limit what the Pod sends to %d bits each second: %w", b.EgressRate, err)
	}
	return nil
}

// Bounds of a bucket, in bytes: it must hold the largest packet the kernel makes in one piece.
const minBurst, maxQueueTime = 64 << 10, 0.025 // seconds

// newTokenBucket is a token bucket. Runtimes say 2^32-1 bits where nobody named a burst; a tenth of
// a second's worth is taken then.
func newTokenBucket(link netlink.Link, rate, burst uint64) *netlink.Tbf {
	bytes := max(rate/8, 1)
	size := burst / 8
	if burst == 0 || burst >= math.MaxUint32 {
		size = bytes / 10
	}
	size = min(max(size, minBurst), math.MaxUint32/8)
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT},
		Rate: bytes, Buffer: netlink.Xmittime(bytes, uint32(size)),
		Limit: uint32(min(float64(bytes)*maxQueueTime+float64(size), math.MaxUint32)),
	}
}
