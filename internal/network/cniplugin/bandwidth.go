package cniplugin

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// bandwidthLimits are the annotations kubernetes.io/ingress-bandwidth and egress-bandwidth: rate in
// bits per second, burst in bits. Ingress is traffic to the Pod.
type bandwidthLimits struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// shape limits the Pod's bandwidth, each direction where packets enter its link: no further device
// is needed.
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

// Bounds of a bucket: bytes, as it must hold the largest packet of the kernel, and seconds.
const minBurst, maxQueueTime = 64 << 10, 0.025 // seconds

// newTokenBucket returns a token bucket filter. Runtimes pass 2^32-1 bits if no burst is set; a
// tenth of a second's worth is used then.
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
