package objectcache

// WatchedObjects is how many objects are held.
func (c *Cache) WatchedObjects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items)
}
