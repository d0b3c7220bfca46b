package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	migrationclient "k8s.io/client-go/kubernetes/typed/storagemigration/v1"
	"k8s.io/klog/v2"
)

// Reasons of a migration's conditions, as upstream's.
const (
	reasonInProgress = "StorageVersionMigrationInProgress"
	reasonSucceeded  = "StorageVersionMigrationSucceeded"
	reasonFailed     = "StorageVersionMigrationFailed"
)

// discoveryTimeout is how long a migration waits for its resource to be served, as upstream.
const discoveryTimeout = time.Minute

// ErrNotServed means that no resource of this name can be read and patched.
var ErrNotServed = errors.New("resource not found")

// Controller runs StorageVersionMigrations, one after the other.
type Controller struct {
	Client   migrationclient.StorageVersionMigrationInterface
	Migrator *Migrator
	// Created signals new ones; those of other API servers are found every Period.
	Created <-chan struct{}
	Period  time.Duration
}

// Run runs migrations until ctx ends. An interrupted one is resumed.
func (m *Controller) Run(ctx context.Context) {
	later := time.NewTimer(0)
	defer later.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.Created:
		case <-later.C:
		}
		next := m.Period
		if err := m.syncAll(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Stored objects could not be migrated; the next try is in a second",
				"err", err)
			next = time.Second
		}
		later.Reset(next)
	}
}

// syncAll processes all unfinished migrations; one that cannot continue does not delay others.
func (m *Controller) syncAll(ctx context.Context) error {
	all, err := m.Client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list storage version migrations: %w", err)
	}
	var failed error
	for i := range all.Items {
		if s := &all.Items[i]; !finished(s) && s.DeletionTimestamp == nil {
			if err := m.sync(ctx, s); err != nil {
				failed = errors.Join(failed, fmt.Errorf("storage version migration %s: %w", s.Name, err))
			}
		}
	}
	return failed
}

func (m *Controller) sync(ctx context.Context, s *migrationv1.StorageVersionMigration) error {
	gr := schema.GroupResource{Group: s.Spec.Resource.Group, Resource: s.Spec.Resource.Resource}
	revision, err := m.Migrator.Revision(ctx, gr)
	switch {
	case errors.Is(err, ErrNotServed) && time.Since(s.CreationTimestamp.Time) > discoveryTimeout:
		return m.updateStatus(ctx, withResult(s, err, metav1.Now()))
	case err != nil:
		return err
	}
	started := withRunning(s, revision, metav1.Now())
	if s, err = m.Client.UpdateStatus(ctx, started, metav1.UpdateOptions{}); err != nil {
		return ignoreConflict(err)
	}
	report, err := m.Migrator.MigrateResource(ctx, gr)
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("migration encountered unhandled error: %d of %d objects could not be written: %s",
			report.Failed, report.Objects, report.Problems[0])
	} else if err != nil {
		return err // the server is down or stops: retry
	}
	return m.updateStatus(ctx, withResult(s, err, metav1.Now()))
}

func (m *Controller) updateStatus(ctx context.Context, s *migrationv1.StorageVersionMigration) error {
	_, err := m.Client.UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return ignoreConflict(err)
}

// ignoreConflict drops Conflict and NotFound: another API server was faster, or the migration was
// deleted. The next round sees the current state.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func finished(s *migrationv1.StorageVersionMigration) bool {
	is := func(t migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(s.Status.Conditions, string(t))
	}
	return is(migrationv1.MigrationSucceeded) || is(migrationv1.MigrationFailed)
}

// withRunning returns the migration as running at a resource version.
func withRunning(s *migrationv1.StorageVersionMigration, revision string,
	now metav1.Time) *migrationv1.StorageVersionMigration {
	s = s.DeepCopy()
	if s.Status.ResourceVersion == "" {
		s.Status.ResourceVersion = revision
	}
	setCondition(s, migrationv1.MigrationRunning, metav1.Condition{Status: metav1.ConditionTrue,
		Reason: reasonInProgress, LastTransitionTime: now})
	return s
}

// withResult returns the migration as finished, successfully if err is nil.
func withResult(s *migrationv1.StorageVersionMigration, err error,
	now metav1.Time) *migrationv1.StorageVersionMigration {
	s = s.DeepCopy()
	if c := meta.FindStatusCondition(s.Status.Conditions, string(migrationv1.MigrationRunning)); c != nil {
		setCondition(s, migrationv1.MigrationRunning, metav1.Condition{Status: metav1.ConditionFalse, Reason: c.Reason,
			Message: c.Message, LastTransitionTime: now})
	}
	if err == nil {
		setCondition(s, migrationv1.MigrationSucceeded, metav1.Condition{Status: metav1.ConditionTrue,
			Reason: reasonSucceeded, LastTransitionTime: now})
	} else {
		setCondition(s, migrationv1.MigrationFailed, metav1.Condition{Status: metav1.ConditionTrue,
			Reason: reasonFailed, Message: err.Error(), LastTransitionTime: now})
	}
	return s
}

func setCondition(s *migrationv1.StorageVersionMigration, t migrationv1.MigrationConditionType, c metav1.Condition) {
	c.Type = string(t)
	meta.SetStatusCondition(&s.Status.Conditions, c)
}
