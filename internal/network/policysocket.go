package network

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// policyTimeout is how long the start of a Pod waits until its rules are in force. The runtime
// retries after an error.
const policyTimeout = 15 * time.Second

// WaitForPolicies announces a lease at the NetworkPolicy controller's socket and returns when the
// kernel has the rules for its addresses. No process of the Pod runs before.
func WaitForPolicies(socket string, l ipam.Lease) error {
	c, err := net.DialTimeout("unix", socket, policyTimeout)
	if err != nil {
		return fmt.Errorf("network policies cannot be put in force for %s: %w; is gantry running?", l.Holder(), err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(policyTimeout)); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(l); err != nil {
		return fmt.Errorf("network policies for %s: %w", l.Holder(), err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("network policies for %s: no answer: %w", l.Holder(), err)
	}
	if answer != "ok\n" {
		return fmt.Errorf("network policies for %s: %s", l.Holder(), answer[:len(answer)-1])
	}
	return nil
}

// Leases returns the current leases of the instance that c describes.
func Leases(c Config) ([]ipam.Lease, error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	allocations, err := s.store.View()
	return allocations.Leases, err
}
