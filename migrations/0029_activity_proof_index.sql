-- Finds drawn activities whose proof is not published, without reading every activity ever drawn.
ALTER TABLE activity ADD INDEX activity_proof (status, proof_published_at);
