-- Who alone may write to a branch: JSON, {"key": id} or {"pipeline": name}. NULL: nobody is kept out.
ALTER TABLE branch_settings ADD COLUMN writer TEXT;
