package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	clientsnapshot "go.etcd.io/etcd/client/v3/snapshot"
)

// Member is the state of one etcd server. Sizes are in bytes.
type Member struct {
	Endpoint string `json:"endpoint"`
	Version  string `json:"version"`
	Revision int64  `json:"revision"`
	Size     int64  `json:"size"`   // of the database file
	InUse    int64  `json:"inUse"`  // of Size; Defragment frees the rest
	Quota    int64  `json:"quota"`  // Size at which writes are refused
	Leader   bool   `json:"leader"` // leads the cluster
	// Alarms are NOSPACE (writes are refused) and CORRUPT.
	Alarms []string `json:"alarms,omitempty"`
}

// forEachEndpoint calls visit with a client of each endpoint and stops at the first error.
func (s *Store) forEachEndpoint(visit func(c *clientv3.Client, endpoint string) error) error {
	for _, endpoint := range s.Transport.ServerList {
		cfg, err := clientConfig(s.Transport, endpoint)
		if err != nil {
			return err
		}
		c, err := clientv3.New(cfg)
		if err != nil {
			return fmt.Errorf("etcd at %s: %w", endpoint, err)
		}
		err = errors.Join(visit(c, endpoint), c.Close())
		if err != nil {
			return fmt.Errorf("etcd at %s: %w", endpoint, err)
		}
	}
	return nil
}

// Members returns the state of each server.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	var out []Member
	err := s.forEachEndpoint(func(c *clientv3.Client, endpoint string) error {
		st, err := c.Status(ctx, endpoint)
		if err != nil {
			return err
		}
		m := Member{
			Endpoint: endpoint, Version: st.Version, Revision: st.Header.Revision, Size: st.DbSize,
			InUse: st.DbSizeInUse, Quota: st.DbSizeQuota,
			Leader: st.Leader == st.Header.MemberId,
		}
		alarms, err := c.AlarmList(ctx)
		if err != nil {
			return err
		}
		for _, a := range alarms.Alarms {
			if a.MemberID == st.Header.MemberId {
				m.Alarms = append(m.Alarms, a.Alarm.String())
			}
		}
		out = append(out, m)
		return nil
	})
	return out, err
}

// Save writes a snapshot with a checksum to a new file of mode 0600, completely or not at all.
// Writes to the store continue meanwhile. It refuses to replace a file.
func (s *Store) Save(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists: a snapshot never replaces a file; choose another name", path)
	}
	cfg, err := clientConfig(s.Transport, s.Transport.ServerList[0])
	if err != nil {
		return err
	}
	if _, err := clientsnapshot.SaveWithVersion(ctx, newEtcdLogger(), cfg, path); err != nil {
		return fmt.Errorf("snapshot to %s: %w", path, err)
	}
	return nil
}

// Compact drops the history of all keys before a revision (0: the current one) and returns the
// revision. Watches that resume from before it get 410 Gone and list again.
func (s *Store) Compact(ctx context.Context, revision int64) (int64, error) {
	c, err := dial(s.Transport)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if revision == 0 {
		res, err := c.Get(ctx, Prefix, clientv3.WithCountOnly())
		if err != nil {
			return 0, fmt.Errorf("compact: %w", err)
		}
		revision = res.Header.Revision
	}
	_, err = c.Compact(ctx, revision, clientv3.WithCompactPhysical())
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return revision, nil // compacted already
	case errors.Is(err, rpctypes.ErrFutureRev):
		return 0, fmt.Errorf("compact: the store has not reached revision %d yet: name an earlier one, or none for "+
			"the present one", revision)
	case err != nil:
		return 0, fmt.Errorf("compact: %w", err)
	}
	return revision, nil
}

// Defragment returns unused space of each server's file to the file system and disarms the NOSPACE
// alarm of a server that is below its quota then. A server answers no request meanwhile.
func (s *Store) Defragment(ctx context.Context) error {
	return s.forEachEndpoint(func(c *clientv3.Client, endpoint string) error {
		if _, err := c.Defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragment: %w", err)
		}
		st, err := c.Status(ctx, endpoint)
		if err != nil {
			return err
		}
		if st.DbSizeQuota > 0 && st.DbSize >= st.DbSizeQuota {
			return nil
		}
		alarms, err := c.AlarmList(ctx)
		if err != nil {
			return err
		}
		for _, a := range alarms.Alarms {
			if a.Alarm != pb.AlarmType_NOSPACE || a.MemberID != st.Header.MemberId {
				continue
			}
			if _, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
				return fmt.Errorf("end the NOSPACE alarm: %w", err)
			}
		}
		return nil
	})
}
