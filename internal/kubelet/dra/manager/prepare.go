package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/gantry-project/gantry/internal/kubelet/dra"
	"github.com/gantry-project/gantry/internal/kubelet/dra/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
)

// Prepare has drivers prepare a Pod's claims that are not prepared yet. Its errors are upstream's.
func (m *Manager) Prepare(ctx context.Context, p *v1.Pod) (err error) {
	startedAt := time.Now()
	defer func() { m.operation("PrepareResources", err, startedAt) }()
	if err := m.prepare(ctx, p); err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) operation(name string, err error, startedAt time.Time) {
	if m.d.Metrics.Operation != nil {
		m.d.Metrics.Operation(name, err, time.Since(startedAt))
	}
}

func (m *Manager) prepare(ctx context.Context, p *v1.Pod) error {
	// Everything that can be refused is looked at before a claim is noted: a Pod whose driver was
	// never there can be deleted without it.
	claims, drivers, err := m.validate(ctx, p)
	if err != nil {
		return err
	}
	batches, err := m.reference(p.UID, claims)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(batches)) {
		if err := m.prepareBatch(ctx, drivers[name], batches[name]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		if have := m.claims[keyOf(c)]; have != nil && have.ClaimUID == c.ClaimUID {
			have.Prepared = true
		}
	}
	if err := m.save(); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	return nil
}

func keyOf(c *dra.Claim) claimKey { return claimKey{Namespace: c.Namespace, Name: c.ClaimName} }

// validate reads the Pod's claims and finds their drivers; nothing is changed.
func (m *Manager) validate(ctx context.Context, p *v1.Pod) ([]*dra.Claim, map[string]*plugin.Driver, error) {
	names, err := dra.PodClaims(p)
	if err != nil {
		return nil, nil, err
	}
	var out []*dra.Claim
	drivers := map[string]*plugin.Driver{}
	for _, n := range names {
		claim, err := m.d.API.GetClaim(ctx, p.Namespace, n.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("fetch ResourceClaim %s: %w", n.Name, err)
		}
		if n.CheckOwner {
			if err := resourceclaim.IsForPod(p, claim, false); err != nil {
				return nil, nil, err
			}
		}
		if !resourceclaim.IsReservedForPod(p, claim, false) {
			return nil, nil, fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", p.Name, p.UID,
				n.Name,
				claim.UID)
		}
		c, err := dra.NewClaim(claim)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range c.Drivers(resourceapi.SkipNodeOperationNodePrepareResources) {
			if drivers[name], err = m.driver(name); err != nil {
				return nil, nil, err
			}
		}
		out = append(out, c)
	}
	return out, drivers, nil
}

// reference notes that a Pod uses claims, and returns what drivers have to prepare.
func (m *Manager) reference(uid types.UID, claims []*dra.Claim) (map[string][]*drapb.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		switch have := m.claims[keyOf(c)]; {
		case have == nil:
		case have.ClaimUID != c.ClaimUID:
			return nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists (previous "+
				"pod force-deleted?!)", c.ClaimName, have.ClaimUID)
		case have.Unpreparing:
			return nil, fmt.Errorf("ResourceClaim %s is being unprepared", c.ClaimName)
		}
	}
	batches := map[string][]*drapb.Claim{}
	for _, c := range claims {
		have := m.claims[keyOf(c)]
		if have == nil {
			have = c
			m.claims[keyOf(c)] = c
		}
		have.PodUIDs.Insert(string(uid))
		if have.Prepared {
			continue
		}
		for _, name := range have.Drivers(resourceapi.SkipNodeOperationNodePrepareResources) {
			batches[name] = append(batches[name], call(have))
		}
	}
	if err := m.save(); err != nil {
		return nil, fmt.Errorf("checkpoint ResourceClaim cache: %w", err)
	}
	return batches, nil
}

// call is a claim as drivers are told of it.
func call(c *dra.Claim) *drapb.Claim {
	return &drapb.Claim{Namespace: c.Namespace, Uid: string(c.ClaimUID), Name: c.ClaimName}
}

// prepareBatch has one driver prepare claims.
func (m *Manager) prepareBatch(ctx context.Context, d *plugin.Driver, claims []*drapb.Claim) error {
	if d == nil {
		return fmt.Errorf("internal error: a claim changed its drivers")
	}
	response, err := d.Prepare(ctx, claims)
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	byUID := map[string]*drapb.Claim{}
	for _, c := range claims {
		byUID[c.GetUid()] = c
	}
	for _, uid := range slices.Sorted(maps.Keys(response.GetClaims())) {
		result, c := response.GetClaims()[uid], byUID[uid]
		if c == nil {
			return fmt.Errorf("NodePrepareResources returned result for unknown claim UID %s", uid)
		}
		if text := result.GetError(); text != "" {
			return fmt.Errorf("NodePrepareResources failed for ResourceClaim %s: %s", c.GetName(), text)
		}
		if err := m.setDevices(c, d.Name(), result.GetDevices()); err != nil {
			return err
		}
	}
	if missing := len(claims) - len(response.GetClaims()); missing != 0 {
		return fmt.Errorf("NodePrepareResources skipped %d ResourceClaims", missing)
	}
	return nil
}

// setDevices notes what a driver prepared for a claim.
func (m *Manager) setDevices(c *drapb.Claim, driver string, devices []*drapb.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.claims[claimKey{Namespace: c.GetNamespace(), Name: c.GetName()}]
	if have == nil {
		return fmt.Errorf("internal error: unable to get claim info for ResourceClaim %s in namespace %s", c.GetName(),
			c.GetNamespace())
	}
	var list []state.Device
	for _, d := range devices {
		list = append(list, state.Device{PoolName: d.GetPoolName(), DeviceName: d.GetDeviceName(),
			ShareID: (*types.UID)(d.ShareId), RequestNames: d.GetRequestNames(), CDIDeviceIDs: d.GetCdiDeviceIds()})
	}
	have.SetDevices(driver, list)
	return nil
}

// Unprepare has drivers undo what they prepared for claims that only this Pod uses. Its errors are
// upstream's; it is called again after one.
func (m *Manager) Unprepare(ctx context.Context, uid types.UID) (err error) {
	startedAt := time.Now()
	defer func() { m.operation("UnprepareResources", err, startedAt) }()
	if err := m.unprepare(ctx, uid); err != nil {
		return fmt.Errorf("unprepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) unprepare(ctx context.Context, uid types.UID) error {
	batches, last := m.dereference(uid)
	for _, name := range slices.Sorted(maps.Keys(batches)) {
		if err := m.unprepareBatch(ctx, name, batches[name]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range last {
		if m.claims[keyOf(c)] == c {
			delete(m.claims, keyOf(c))
		}
	}
	if err := m.save(); err != nil {
		for _, c := range last {
			m.claims[keyOf(c)] = c // it is undone again
		}
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	return nil
}

// dereference takes a Pod off claims that others use as well, and returns those that it is the last
// user of, and what their drivers have to undo.
func (m *Manager) dereference(uid types.UID) (batches map[string][]*drapb.Claim, last []*dra.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	batches = map[string][]*drapb.Claim{}
	for _, c := range m.claims {
		switch {
		case !c.PodUIDs.Has(string(uid)):
		case len(c.PodUIDs) > 1:
			c.PodUIDs.Delete(string(uid))
		default:
			c.Unpreparing = true
			last = append(last, c)
			for _, name := range c.Drivers(resourceapi.SkipNodeOperationNodeUnprepareResources) {
				batches[name] = append(batches[name], call(c))
			}
		}
	}
	return batches, last
}

func (m *Manager) unprepareBatch(ctx context.Context, name string, claims []*drapb.Claim) error {
	d, err := m.driver(name)
	if err != nil {
		return err
	}
	response, err := d.Unprepare(ctx, claims)
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources: %w", err)
	}
	for _, uid := range slices.Sorted(maps.Keys(response.GetClaims())) {
		i := slices.IndexFunc(claims, func(c *drapb.Claim) bool { return c.GetUid() == uid })
		if i < 0 {
			return fmt.Errorf("NodeUnprepareResources returned result for unknown claim UID %s", uid)
		}
		if text := response.GetClaims()[uid].GetError(); text != "" {
			return fmt.Errorf("NodeUnprepareResources failed for ResourceClaim %s: %s", claims[i].GetName(), text)
		}
	}
	if missing := len(claims) - len(response.GetClaims()); missing != 0 {
		return fmt.Errorf("NodeUnprepareResources skipped %d ResourceClaims", missing)
	}
	return nil
}
